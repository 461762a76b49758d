# shellcheck shell=bash disable=SC2154
# Sourced by start.sh: the server's configuration on stdout, and the files it refers to.

config() {
  cat <<X
all.role server
all.adminpath $run/admin
all.pidpath $run/pid
xrd.network nodnr
xrd.sched maxt 64
if exec xrootd
  xrd.port $port
  xrd.protocol http:$port libXrdHttp.so
fi
oss.localroot $data
all.export $namespace
http.listingdeny no
X
  if [[ $tls == yes ]]; then
    echo "xrd.tls $run/server.pem $run/server.key"
    echo "xrd.tlsca certfile $dir/ca.pem"
  fi
  "config_$mode"
  printf '%s' "$extra"
}

config_open() {
  # The first one is the default; the order is that of Pelican's own origins.
  echo "xrootd.chksum max 10 crc32c md5 adler32 crc32"
}

config_token() {
  config_open
  cat <<X
http.header2cgi Authorization authz
xrootd.seclib libXrdSec.so
sec.protbind * none
ofs.authorize 1
acc.audit deny grant
acc.authdb $run/authdb
ofs.authlib ++ libXrdAccSciTokens.so config=$run/scitokens.cfg
X
  cat >"$run/scitokens.cfg" <<X
[Global]
audience = https://wlcg.cern.ch/jwt/v1/any, ANY
onmissing = passthrough

[Issuer test]
issuer = $issuer
base_path = $namespace
X
  # What one may do without a token: l is look up and list, r is read.
  if [[ $public_read == yes ]]; then
    echo "u * $namespace lr" >"$run/authdb"
  else
    echo "u * /nothing lr" >"$run/authdb"
  fi
}

# What caches of the OSDF are made of; clients cannot write through it.
config_cache() {
  cat <<X
ofs.osslib libXrdPss.so
ofs.ckslib * libXrdPss.so
xrootd.chksum max 2 md5 adler32
pss.cachelib default
pss.origin $origin
pfc.ram 1g
pfc.blocksize 128k
pfc.prefetch 0
pfc.diskusage 0.97 0.98
X
}
