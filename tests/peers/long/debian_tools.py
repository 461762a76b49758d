"""Debian packages that researchers ask for run in images, by a command that needs what their scripts do.

Fetches about 1.5 GB from deb.debian.org or snapshot.debian.org; what the cache of images has is not fetched again.
"""

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

from _packages import build, check_rows, root_of
from _shared import check, finish, skip

# Packages, their files, two folders with these, and an image.
NEEDED_BYTES = 20 << 30
SUM = "int main(){return 0;}"

# Name of an image, and what is in it: package, command, a part of its output.
IMAGES = {
    "compute": [
        ("gdal-bin", "gdalinfo --version", "GDAL 3"),
        ("r-base-core", "Rscript -e 'cat(solve(matrix(c(2, 0, 0, 4), 2)))'", "0.5 0 0 0.25"),
        ("octave", "octave --eval 'disp(det([2 0; 0 3]))'", "6"),
        ("python3-scipy", "python3 -c 'import scipy.linalg as l; print(l.det([[2, 0], [0, 3]]))'", "6.0"),
        ("python3-pandas", "python3 -c 'import pandas; print(pandas.Series([40, 2]).sum())'", "42"),
        ("python3-matplotlib", "MPLBACKEND=agg python3 -c 'import matplotlib.pyplot as p; p.plot([1]); p.savefig(\"x.png\"); print(\"drawn\")'", "drawn"),
        ("python3-opencv", "python3 -c 'import cv2, numpy; print(cv2.resize(numpy.zeros((4, 4)), (2, 2)).shape)'", "(2, 2)"),
        ("gromacs", "gmx --version 2>&1", "GROMACS version"),
        ("openmpi-bin", "mpirun --allow-run-as-root --oversubscribe -n 2 echo good", "good\ngood"),
        ("libopenblas0-pthread", "ls -l /etc/alternatives/libblas.so.3-x86_64-linux-gnu", "openblas"),
        ("gnuplot-nox", "gnuplot -e 'print 6*7' 2>&1", "42"),
        ("proj-bin", "echo 2 49 | cs2cs EPSG:4326 EPSG:3857", "5454655"),
        ("netcdf-bin", "ncdump 2>&1 | head -n 1", "ncdump"),
        ("hdf5-tools", "h5dump --version", "h5dump"),
        ("nco", "ncks --version 2>&1", "NCO"),
        ("cdo", "cdo -s -outputf,%g -const,42,r1x1", "42"),
        ("grass-core", "ls /usr/bin/grass", "grass"),
        ("bc", "echo '6*7' | bc", "42"),
        ("sqlite3", "sqlite3 :memory: 'select 6*7'", "42"),
    ],
    "media": [
        ("ffmpeg", "ffmpeg -v error -f lavfi -i testsrc=d=0.2 -c:v libx264 x.mp4 && ffprobe -v error -show_entries stream=codec_name -of csv=p=0 x.mp4", "h264"),
        ("imagemagick", "convert -size 4x4 xc:red x.png && identify x.png", "PNG 4x4"),
        ("graphicsmagick", "gm convert -size 4x4 xc:red x.png && gm identify x.png", "PNG 4x4"),
        ("graphviz", "echo 'digraph{a->b}' | dot -Tpng | head -c 4 | tail -c 3", "PNG"),
        ("ghostscript", "gs -q -dNODISPLAY -dBATCH -c '6 7 mul =='", "42"),
        ("poppler-utils", "pdftotext -v 2>&1", "pdftotext"),
        ("fonts-dejavu-core", "test -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf && echo good", "good"),
        ("fontconfig", "fc-match sans", "DejaVu"),
        ("libgl1", "python3 -c 'import ctypes; ctypes.CDLL(\"libGL.so.1\"); print(\"good\")'", "good"),
        ("python3-pil", "python3 -c 'from PIL import Image; print(Image.new(\"L\", (2, 2)).size)'", "(2, 2)"),
        ("sox", "sox -n x.wav synth 0.1 sine 440 && soxi -r x.wav", "48000"),
        ("shared-mime-info", "test -s /usr/share/mime/mime.cache && echo good", "good"),
        ("libgdk-pixbuf-2.0-0", "test -s /usr/lib/x86_64-linux-gnu/gdk-pixbuf-2.0/2.10.0/loaders.cache && echo good", "good"),
        ("libimage-exiftool-perl", "exiftool -ver", "12"),
        ("webp", "cwebp -version", "1.2"),
        ("file", "file -b /etc/passwd", "ASCII text"),
    ],
    "build": [
        ("default-jre-headless", "java -version 2>&1", "OpenJDK"),
        ("ca-certificates-java", "keytool -list -cacerts -storepass changeit 2>&1", "trustedCertEntry"),
        ("gcc", f"echo '{SUM}' >x.c && cc x.c -o x && ./x && echo good", "good"),
        ("g++", f"echo '{SUM}' >x.cc && c++ x.cc -o x && ./x && echo good", "good"),
        ("gfortran", "printf 'print *, 42\\nend\\n' >x.f90 && f95 x.f90 -o x && ./x", "42"),
        ("cmake", "cmake --version", "cmake version"),
        ("make", "printf 'x:\\n\\t@echo good\\n' | make -f - x", "good"),
        ("ninja-build", "ninja --version", "1."),
        ("git", "git init -q r && cd r && git status -s && echo good", "good"),
        ("curl", "curl --version", "curl"),
        ("wget", "wget --version", "GNU Wget"),
        ("openssh-client", "ssh -V 2>&1", "OpenSSH"),
        ("rsync", "rsync --version", "rsync"),
        ("vim-nox", "vim --version", "VIM - Vi IMproved"),
        ("nano", "editor --version", "nano"),
        ("tmux", "tmux -V", "tmux"),
        ("jq", "echo '{\"a\": 42}' | jq .a", "42"),
        ("netcat-openbsd", "nc -h 2>&1", "OpenBSD netcat"),
        ("parallel", "parallel echo ::: good", "good"),
        ("pigz", "echo good | pigz | zcat", "good"),
        ("p7zip-full", "7z", "7-Zip"),
        ("locales", "test -e /usr/sbin/locale-gen && LC_ALL=C.UTF-8 locale charmap", "UTF-8"),
        ("perl", "perl -MList::Util=sum -e 'print sum 40, 2'", "42"),
        ("lua5.3", "lua -e 'print(6*7)'", "42"),
        ("python3-pip", "pip --version", "pip"),
        ("python3-venv", "python3 -m venv --without-pip v && v/bin/python -c 'print(42)'", "42"),
    ],
}


def main():
    allowed = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], capture_output=True)
    if allowed.returncode:
        return skip("Debian's tools", "user namespaces", "allow them: sysctl kernel.unprivileged_userns_clone=1")
    if shutil.disk_usage(".").free < NEEDED_BYTES:
        return skip("Debian's tools", "20 GB of disk", "free some")
    for name, rows in IMAGES.items():
        sif = build(name, [package for package, _, _ in rows])
        with root_of(sif) as root:
            check_rows(root, rows)
        shutil.rmtree(name)
    check("all images were tried", not list(pathlib.Path(".").glob("*/*.sif")))
    return None


main()
finish()
