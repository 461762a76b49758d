# Compiles what the file argv[1] lists, pairs of a source here and its path in the image, each
# ended by a zero byte. For each goes out its byte code's length, 8 bytes little-endian, and the
# byte code; the length is 2^64 - 1 for a source that does not compile, as test data may not.
# Byte code names its source by digest, so that no time is in it, and is never compared with it:
# in an image neither changes.
# Only what is built into the interpreter is imported.
import sys
import _frozen_importlib_external as external
import _imp

magic = int.from_bytes(external.MAGIC_NUMBER, "little")

with open(sys.argv[1], "rb") as file:
    words = file.read().split(b"\0")
out = sys.stdout.buffer
for here, inside in zip(words[0::2], words[1::2]):
    with open(here, "rb") as file:
        source = file.read()
    try:
        code = compile(source, inside.decode(), "exec", dont_inherit=True, optimize=0)
        data = bytes(external._code_to_hash_pyc(code, _imp.source_hash(magic, source), False))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        out.write(b"\xff" * 8)
    else:
        out.write(len(data).to_bytes(8, "little"))
        out.write(data)
out.flush()
