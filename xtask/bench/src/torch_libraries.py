"""Unpacks what a training needs of torch's wheels into one folder: torch_libraries.py WHEELS TARGET.

Left out is what only Python, profilers or other programs load, or what the GPU's driver brings.
"""

import pathlib
import re
import shutil
import sys
import zipfile

NEEDLESS = re.compile(
    r"libtorch_python|libshm|libtorch_global_deps|\.alt\.|cusolverMg|nvperf|pcsampling|libcheckpoint|"
    r"nvblas|cufftw|cufile_rdma|nvshmem_(bootstrap|transport)|libnvtx|/stubs/"
)


def main(wheels, target):
    target = pathlib.Path(target)
    target.mkdir(parents=True)
    for path in sorted(pathlib.Path(wheels).glob("*.whl")):
        inside = {"torch": "torch/lib/", "nvidia": "nvidia/"}.get(re.split("[-_]", path.name)[0])
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                library = inside and name.startswith(inside) and re.search(r"\.so(\.\d+)*$", name)
                if library and not NEEDLESS.search(name):
                    with wheel.open(name) as source, (target / pathlib.Path(name).name).open("wb") as out:
                        shutil.copyfileobj(source, out, 1 << 20)


main(*sys.argv[1:])
