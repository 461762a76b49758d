#!/usr/bin/env bash
# A real Slurm on loopback, all of its state below one folder: munged, slurmctld, slurmd for each node.
# Debian 12: slurm-wlm and munge, as root; neither systemd nor cgroups nor a database.
#   local.sh up DIR NODES CPUS GPUS MB  prints the SLURM_CONF to export
#   local.sh down DIR                   stops what it started
set -euo pipefail
cmd=${1:?up|down} dir=${2:?folder} nodes=${3:-2} cpus=${4:-2} gpus=${5:-2} memory=${6:-2000}

up() {
  mkdir -p "$dir"/{munge,state,spool,log,pid,dev}
  dir=$(cd "$dir" && pwd)
  chmod 0755 "$dir" "$dir/munge"
  local host base i k
  host=$(hostname -s) base=${SLURM_PORT_BASE:-17600}
  # munge insists on a key that only its owner reads.
  (umask 077 && head -c 128 /dev/urandom > "$dir/munge/key")
  munged --force --key-file="$dir/munge/key" --socket="$dir/munge/sock" --pid-file="$dir/pid/munged" \
    --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" --num-threads=1
  cat > "$dir/slurm.conf" <<EOF
ClusterName=loop
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$base
AuthType=auth/munge
# A requeued job waits until its old credential ends.
AuthInfo=socket=$dir/munge/sock,cred_expire=5
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/pid/slurmctld
SlurmdPidFile=$dir/pid/slurmd-%n
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
# More cores than this machine has.
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=5
MinJobAge=300
InactiveLimit=0
GresTypes=gpu
EOF
  for i in $(seq 1 "$nodes"); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + i)) CPUs=$cpus RealMemory=$memory Gres=gpu:fake:$gpus State=UNKNOWN"
  done >> "$dir/slurm.conf"
  echo "PartitionName=main Nodes=n[1-$nodes] Default=YES MaxTime=00:30:00 OverSubscribe=NO State=UP" >> "$dir/slurm.conf"
  # A GPU must be a character device, or CUDA_VISIBLE_DEVICES stays empty: null devices of that name.
  for k in $(seq 0 $((gpus - 1))); do
    [ -e "$dir/dev/nvidia$k" ] || mknod "$dir/dev/nvidia$k" c 1 3
  done
  echo "NodeName=n[1-$nodes] Name=gpu Type=fake Flags=nvidia_gpu_env File=$dir/dev/nvidia[0-$((gpus - 1))]" > "$dir/gres.conf"
  echo "CgroupAutomount=no" > "$dir/cgroup.conf"
  export SLURM_CONF="$dir/slurm.conf"
  slurmctld -c -f "$SLURM_CONF"
  for i in $(seq 1 "$nodes"); do
    mkdir -p "$dir/spool/n$i"
    slurmd -N "n$i" -f "$SLURM_CONF"
  done
  for _ in $(seq 1 120); do
    if [ "$(sinfo -h -t idle -o %D 2> /dev/null | head -n 1)" = "$nodes" ]; then
      echo "$SLURM_CONF"
      return
    fi
    sleep 0.25
  done
  echo "nodes did not become idle" >&2
  return 1
}

down() {
  local file pid
  for file in "$dir"/pid/slurmd-* "$dir"/pid/slurmctld "$dir"/pid/munged; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2> /dev/null || true
    for _ in $(seq 1 40); do
      kill -0 "$pid" 2> /dev/null || break
      sleep 0.25
    done
    kill -9 "$pid" 2> /dev/null || true
  done
}

"$cmd"
