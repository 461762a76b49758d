"""Single samples of a bundle, by their keys."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, Optional, Sequence, Union

from . import _gular
from ._gular import mask
from .errors import SampleError


def opened(
    source: str,
    digest: Optional[str],
    cache: Union[None, str, "os.PathLike[str]"],
    token_files: Sequence[Union[str, "os.PathLike[str]"]],
) -> Any:
    """The shards and samples of a bundle, as files."""
    settings = {
        "source": source,
        "digest": digest,
        "cache": None if cache is None else os.fspath(cache),
        "token_files": [os.fspath(file) for file in token_files],
    }
    return _gular.Files(json.dumps(settings))


def read_samples(
    source: Union[str, "os.PathLike[str]"],
    keys: Iterable[str],
    field: str = "image",
    *,
    digest: Optional[str] = None,
    cache: Union[None, str, "os.PathLike[str]"] = None,
    token_files: Sequence[Union[str, "os.PathLike[str]"]] = (),
) -> Dict[str, bytes]:
    """The stored bytes of single samples, each compared with its digest: ``{key: bytes}``.

    ::

        found = gular.read_samples("pelican://…/set/v1#blake3=…", ["train/cat/1.jpg"])

    Of a URL, the indexes and these bytes are asked for, and up to a sixteenth more: what is between
    neighbours. Where they are over a sixteenth of a shard, the shard is fetched into the node's
    cache instead.

    :param source: A bundle's folder, or a URL.
    :param keys: Paths that samples were packed from: ``batch["key"]`` has them.
    :param field: The field that is read.
    :param digest: The bundle digest that is wanted; another one is an error.
    :param cache: The node's folder of fetched bundles.
    :param token_files: Files with tokens for a URL.
    :raises gular.SampleError: for the first key that the bundle does not have.
    """
    if isinstance(keys, (str, bytes)):
        raise TypeError(mask(f"`keys` is a list of keys, such as [{keys!r}]"))
    keys = list(keys)
    values = opened(os.fspath(source), digest, cache, token_files).samples(keys, field)
    found = dict(zip(keys, values))
    for key, value in found.items():
        if value is None:
            hint = 'give the paths that the images had when they were packed; a loader returns them as `batch["key"]`'
            raise SampleError(f"the bundle has no sample `{key}`", hint, key)
    return found
