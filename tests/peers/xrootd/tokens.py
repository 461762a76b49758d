#!/usr/bin/env python3
"""The issuer of the test origin: its key, and tokens it signs. Needs `openssl` and no package.

tokens.py seed --keys DIR --issuer URL --cache DIR
    puts the public half of the key where libscitokens keeps the keys of issuers it has asked, so
    that the server asks nobody
tokens.py mint --keys DIR --issuer URL --scope "storage.read:/ storage.create:/" [--lifetime 3600]
    prints a token of the WLCG profile; paths are relative to the namespace

Either makes the key when it is not there.
"""

import argparse
import base64
import json
import os
import pathlib
import sqlite3
import subprocess
import time
import uuid

KEY_ID = "test-key"


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*args, **more):
    return subprocess.run(["openssl", *args], check=True, capture_output=True, **more).stdout


def key_set(key):
    # An uncompressed point is the tail of the public key's DER.
    der = openssl("ec", "-in", key, "-pubout", "-outform", "DER")
    point = {"x": base64url(der[-64:-32]), "y": base64url(der[-32:])}
    return {"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": KEY_ID, **point}]}


def signature(key, message):
    """JWS wants both numbers with 32 bytes each; openssl says `30 len 02 len r 02 len s`."""
    der, numbers, at = openssl("dgst", "-sha256", "-sign", key, input=message), b"", 2
    for _ in range(2):
        size = der[at + 1]
        numbers += der[at + 2 : at + 2 + size].lstrip(b"\0").rjust(32, b"\0")
        at += 2 + size
    return numbers


def make(key):
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True)
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)


def seed(args, key):
    folder = pathlib.Path(args.cache) / "scitokens"
    folder.mkdir(parents=True, exist_ok=True)
    far = int(time.time()) + 30 * 86400
    keys = json.dumps({"jwks": key_set(key), "expires": far, "next_update": far})
    with sqlite3.connect(folder / "scitokens_cpp.sqllite") as cache:
        cache.execute(
            "CREATE TABLE IF NOT EXISTS keycache (issuer text UNIQUE PRIMARY KEY NOT NULL, keys text NOT NULL)"
        )
        cache.execute("INSERT OR REPLACE INTO keycache VALUES (?, ?)", (args.issuer, keys))


def mint(args, key):
    now = int(time.time())
    claims = {
        "wlcg.ver": "1.0",
        "iss": args.issuer,
        "aud": "https://wlcg.cern.ch/jwt/v1/any",
        "sub": "tester",
        "scope": args.scope,
        "jti": str(uuid.uuid4()),
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + args.lifetime,
    }
    header = {"alg": "ES256", "typ": "JWT", "kid": KEY_ID}
    parts = [base64url(json.dumps(part).encode()) for part in (header, claims)]
    message = ".".join(parts)
    print(f"{message}.{base64url(signature(key, message.encode()))}")


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(required=True)
    for verb in (seed, mint):
        options = verbs.add_parser(verb.__name__)
        options.set_defaults(verb=verb)
        options.add_argument("--keys", required=True)
        options.add_argument("--issuer", required=True)
        if verb is seed:
            options.add_argument("--cache", required=True)
        else:
            options.add_argument("--scope", required=True)
            options.add_argument("--lifetime", type=int, default=3600)
    args = parser.parse_args()
    key = pathlib.Path(args.keys) / "issuer.pem"
    os.umask(0o077)
    make(key)
    args.verb(args, key)


if __name__ == "__main__":
    main()
