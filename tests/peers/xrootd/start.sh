#!/usr/bin/env bash
# Runs an XRootD HTTP(S) server for tests in the foreground, until it is killed or its parent ends.
#
#   start.sh open  DIR [--tls] [--extra LINE]...                   reads and writes without a token
#   start.sh token DIR [--tls] [--public-read] [--extra LINE]...   with bearer tokens of --issuer
#   start.sh cache DIR --origin localhost:PORT [--tls] [--extra LINE]...   proxy cache over an open origin
#
# Also: --port N (default: a free one), --namespace /ns (default /test), --issuer URL (its key is made here),
# --data FOLDER (default DIR/data): a cache's --origin is best a process of its own over the HTTP origin's
# data. XRootD 5.5.3 sometimes never answers the first request of an HTTP connection when the same process
# also speaks root://, as caches do.
# Prints `ready URL` once it answers; exits with 3 and one line `TOOL missing, install: …` where it cannot run.
#
#   DIR/data/ns/…    the objects        DIR/xrootd.log   what the server says
#   DIR/ca.pem       with --tls         DIR/keys/        with `token`: the issuer's key, for tokens.py
#
# XRootD refuses to run as root: then it runs as the user `xrootd`, to whom DIR is given. It cannot
# be told to listen on the loopback interface only.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() { echo "start.sh: $1" >&2; exit "${2:-2}"; }

[[ $# -ge 2 && $1 =~ ^(open|token|cache)$ ]] || die "the first arguments are open, token or cache, and a folder"
mode=$1 dir=$2
shift 2
port='' namespace=/test issuer=https://issuer.example.invalid origin='' data='' tls=no public_read=no extra=''
while (($#)); do
  case $1 in
    --port) port=$2; shift ;;
    --namespace) namespace=$2; shift ;;
    --issuer) issuer=$2; shift ;;
    --origin) origin=$2; shift ;;
    --data) data=$2; shift ;;
    --extra) extra+=$2$'\n'; shift ;;
    --tls) tls=yes ;;
    --public-read) public_read=yes ;;
    *) die "unknown option $1" ;;
  esac
  shift
done
[[ $mode != cache || $origin ]] || die "a cache needs --origin"

# What Debian's packages bring, each by something only it has.
libraries=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p)
need() { [[ $2 == yes ]] || { echo "$1 missing, install: apt-get install $3"; exit 3; }; }
has() { type -P "$1" >/dev/null && echo yes || echo no; }
loads() { [[ $libraries == *"$1-"* ]] && echo yes || echo no; }
need xrootd "$(has xrootd)" xrootd-server
need libXrdHttp "$(loads libXrdHttp)" xrootd-plugins
need libXrdPss "$(loads libXrdPss)" xrootd-server-plugins
need libXrdAccSciTokens "$(loads libXrdAccSciTokens)" xrootd-scitokens-plugins
need openssl "$(has openssl)" openssl
need setpriv "$(has setpriv)" util-linux

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
run=$dir/run
data=${data:-$dir/data}
mkdir -p "$data$namespace" "$run/admin" "$run/pid" "$run/cache"
if [[ ! $port ]]; then
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
fi

certificates() {
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=XRootD test CA" -keyout "$run/ca.key" -out "$dir/ca.pem" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
  openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" -keyout "$run/server.key" -out "$run/server.csr"
  openssl x509 -req -in "$run/server.csr" -CA "$dir/ca.pem" -CAkey "$run/ca.key" -CAcreateserial -days 30 -out "$run/server.pem" \
    -extfile <(printf '%s\n' subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1 basicConstraints=CA:FALSE extendedKeyUsage=serverAuth)
  chmod 0400 "$run/server.key"  # XRootD rejects a key that others may read.
}

scheme=http
if [[ $tls == yes ]]; then
  scheme=https
  [[ -f $dir/ca.pem ]] || certificates 2>/dev/null
fi
if [[ $mode == token ]]; then
  python3 "$here/tokens.py" seed --keys "$dir/keys" --issuer "$issuer" --cache "$run/cache"
fi
# shellcheck source=config.sh
source "$here/config.sh"
config >"$run/xrootd.cfg"

# The server gets this process's number; it dies with whoever started it.
server=(setpriv --pdeathsig TERM)
if ((EUID == 0)); then
  chown -R xrootd: "$dir" "$data"
  server+=(--reuid xrootd --regid xrootd --clear-groups)
  setpriv --reuid xrootd --regid xrootd --clear-groups test -w "$run" || die "the user xrootd cannot reach $dir"
fi
{
  for ((i = 0; i < 200; i++)); do
    # A server that has ended, even one nobody has waited for, has no such file.
    [[ -e /proc/$$/exe ]] || break
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "ready $scheme://localhost:$port$namespace"
      exit
    fi
    sleep 0.1
  done
  echo "start.sh: XRootD did not start; the end of $dir/xrootd.log:" >&2
  tail -n 20 "$dir/xrootd.log" >&2
} &
export XDG_CACHE_HOME=$run/cache
cd "$run"
exec "${server[@]}" xrootd -c "$run/xrootd.cfg" -l "$dir/xrootd.log" </dev/null >/dev/null 2>&1
