#!/bin/bash
mkdir output
unzip train.zip
rm train.zip
python3 train.py --data train \ 
  --out output \
  --every 5
  --epochs 20
exit $?
