./train --model model.bin
echo done
