"""``gular://`` for fsspec: one shard, or one sample, of a bundle as a file.

::

    import pandas
    frame = pandas.read_parquet("gular:///data/bundle!/shards/train-….parquet")
    frame = pandas.read_parquet("gular://pelican://osg-htc.org/ns/set/v1#blake3=…!/shards/train-….parquet")

After ``gular://`` comes a bundle's folder or URL, then ``!/``, then ``shards/NAME`` or
``samples/KEY``. Every byte is compared with its digest before it is given. Of a URL, a shard is
fetched into the node's cache when something of it is read; of samples, only their own bytes are
asked for until they make a sixteenth of their shard. ``cat`` with a list of samples is one call for
all of them. Imported when fsspec asks for it.
"""

from __future__ import annotations

import io
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from ._gular import mask
from .samples import opened


class GularFileSystem(AbstractFileSystem):
    """Bundles as folders ``shards`` and ``samples``.

    :param field: The field of a sample that is its file's contents.
    :param digest: The bundle digest that is wanted; another one is an error.
    :param cache: The node's folder of fetched bundles.
    :param token_files: Files with tokens for a URL.
    """

    protocol = "gular"
    root_marker = ""

    def __init__(
        self,
        field: str = "image",
        digest: Optional[str] = None,
        cache: Union[None, str, "os.PathLike[str]"] = None,
        token_files: Sequence[Union[str, "os.PathLike[str]"]] = (),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.field = field
        self._options = (digest, cache, token_files)
        self._bundles: Dict[Tuple[int, str], Any] = {}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        # The bundle's own URL stays as it is.
        path = path[len("gular://") :] if path.startswith("gular://") else path
        bundle, mark, inside = path.partition("!/")
        return bundle.rstrip("/") + mark + inside.strip("/")

    @classmethod
    def _parent(cls, path: str) -> str:
        bundle, _, inside = cls._strip_protocol(path).partition("!/")
        return f"{bundle}!/{inside.rpartition('/')[0]}"

    def _split(self, path: str) -> Tuple[str, Any, List[str]]:
        """The bundle, what is open of it, and the parts of the path inside."""
        bundle, mark, inside = self._strip_protocol(path).partition("!/")
        if not mark:
            raise FileNotFoundError(mask(f"`{path}` has no `!/` between a bundle and what is in it, as in gular://BUNDLE!/shards/NAME"))
        # Not across a fork, where another thread may have held one of its locks.
        here = (os.getpid(), bundle)
        if here not in self._bundles:
            self._bundles[here] = opened(bundle, *self._options)
        return bundle, self._bundles[here], inside.split("/") if inside else []

    def ls(self, path: str, detail: bool = True, **options: Any) -> List[Any]:
        bundle, files, inside = self._split(path)
        found = self._list(files, inside)
        if found is None:
            raise FileNotFoundError(mask(path))
        below = "/".join(inside)
        entries = []
        for name, size in found:
            full = below if name is None else f"{below}/{name}" if below else name
            kind = "directory" if size is None else "file"
            entries.append({"name": f"{bundle}!/{full}", "size": size or 0, "type": kind})
        return entries if detail else [entry["name"] for entry in entries]

    def _list(self, files: Any, inside: List[str]) -> Optional[List[Tuple[Optional[str], Optional[int]]]]:
        """Names in a folder with their bytes, `None` for folders; of a file, itself without a name."""
        if not inside:
            return [("samples", None), ("shards", None)]
        if inside[0] == "shards":
            shards = {name: size for name, size, _ in files.shards()}
            name = "/".join(inside[1:])
            return [*shards.items()] if not name else [(None, shards[name])] if name in shards else None
        if inside[0] != "samples":
            return None
        folder = "".join(part + "/" for part in inside[1:])
        folders, samples = files.list(folder, self.field)
        if folders or samples or not folder:
            return [*((name, None) for name in folders), *samples]
        above = "".join(part + "/" for part in inside[1:-1])
        return next(([(None, size)] for name, size in files.list(above, self.field)[1] if name == inside[-1]), None)

    def info(self, path: str, **options: Any) -> Dict[str, Any]:
        entries = self.ls(path)
        name = self._strip_protocol(path)
        if len(entries) == 1 and entries[0]["name"] == name:
            return dict(entries[0])
        return {"name": name, "size": 0, "type": "directory"}

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """The contents of a file, or of each of several as a dictionary, as fsspec has it; samples
        of a bundle come together."""
        paths = self.expand_path(path, recursive=recursive)
        together: Dict[str, List[str]] = {}
        for one in paths:
            bundle, _, inside = one.partition("!/")
            if inside.startswith("samples/") and not options:
                together.setdefault(bundle, []).append(inside[len("samples/") :])
        found: Dict[str, Any] = {}
        for bundle, keys in together.items():
            try:
                values = self._split(f"{bundle}!/")[1].samples(keys, self.field)
            except Exception:
                # One by one, so that the error is that of its file.
                continue
            found.update((f"{bundle}!/samples/{key}", value) for key, value in zip(keys, values) if value is not None)
        for one in paths:
            try:
                found[one] = found[one] if one in found else self.cat_file(one, **options)
            except Exception as error:
                if on_error == "raise":
                    raise
                if on_error == "return":
                    found[one] = error
        several = len(paths) > 1 or isinstance(path, list) or paths[0] != self._strip_protocol(path)
        return found if several else found[paths[0]]

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **options: Any) -> Any:
        if mode != "rb":
            raise PermissionError(mask(f"bundles never change: `{path}` cannot be opened with mode `{mode}`"))
        _, files, inside = self._split(path)
        if len(inside) > 1 and inside[0] == "samples":
            found = files.samples(["/".join(inside[1:])], self.field)[0]
            if found is not None:
                return io.BytesIO(found)
        if len(inside) > 1 and inside[0] == "shards":
            shard = files.open("/".join(inside[1:]))
            if shard is not None:
                return ShardFile(self, path, shard, block_size)
        raise FileNotFoundError(mask(path))


class ShardFile(AbstractBufferedFile):  # type: ignore[misc]
    """A shard, read by ranges."""

    def __init__(self, files: GularFileSystem, path: str, shard: Any, block_size: Any) -> None:
        self._shard = shard
        super().__init__(files, path, "rb", block_size=block_size or "default")

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self._shard.read(start, end))
