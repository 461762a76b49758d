"""What `help(gular.DataLoader)` shows. Needs no compiled module: a stand-in takes its place."""

import inspect
import pydoc
import re
import sys
import types
from pathlib import Path


class StandIn(types.ModuleType):
    """Has every name; each is a class of its own."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Exception,), {})
        setattr(self, name, made)
        return made


if sys.version_info < (3, 9):
    sys.exit(0)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.modules["gular._gular"] = StandIn("gular._gular")
import gular  # noqa: E402

options = list(inspect.signature(gular.DataLoader).parameters)
assert len(options) > 40 and {"source", "progress"} <= set(options), options

shown = pydoc.plain(pydoc.render_doc(gular.DataLoader))
text, methods = shown.split("Methods defined here:")
for option in options:
    # With its default, or without one.
    assert len(re.findall(rf"[(\s]{option}(?==|,\n|, )", text.split("Batches of one split")[0])) == 1, option
    assert len(re.findall(rf"^ \|  :param {option}:", text, re.M)) == 1, option
assert not set(re.findall(r":param (\w+):", text)) - set(options)
made = re.search(r"__init__\(.*?\)", methods, re.S).group()
assert "options" in made and "progress" not in made, made

titles = re.findall(r"^ \|  \*\*(.*)\*\*$", text, re.M)
assert len(titles) > 5, titles
assert all(1 < len(part.split(":param ")) < 16 for part in re.split(r"\*\*.*\*\*\n", text)[1:]), titles


class Own(gular.DataLoader):
    def __init__(self, only):
        super().__init__(only)


assert list(inspect.signature(Own).parameters) == ["only"]
