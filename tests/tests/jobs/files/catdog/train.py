import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--data")
parser.add_argument("--out")
parser.add_argument("--epochs", type=int)
print(parser.parse_args())
