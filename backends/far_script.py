"""What runs on the far machine while a server there is asked over ssh: one POSIX sh, on whose stdin it comes.

Nothing is written there and nothing is needed but a shell. It prints lines that begin with ``@`` and a letter (`far_lines`
reads them), once a second; its stdin is its lifeline: when that ends, all that it started ends. It takes two orders, a line
each: ``E n`` is answered by ``@E n``; ``W port name`` has the process watched that listens on the port, or (where nobody may
see whose that is: another account's, a container's) the only one of that name.
"""

from __future__ import annotations

from typing import Final

FIELDS: Final = (
    *("index", "uuid", "pci.bus_id", "driver_version", "memory.total", "memory.used", "utilization.gpu"),
    *("utilization.memory", "power.draw", "clocks.sm", "clocks.mem", "temperature.gpu"),
)
"""What nvidia-smi is asked for, before the two that its versions call differently and the name (which may hold a comma)."""
_VARYING: Final = (
    "mig.mode.current,clocks_throttle_reasons.active",  # up to the newest: they still know the older name
    "mig.mode.current,clocks_event_reasons.active",
    "pstate,pstate",  # a driver of before 2020: neither is told
)
PROXIES: Final = ("docker-proxy", "rootlessport", "slirp4netns", "conmon", "sshd", "ssh", "socat", "nginx", "haproxy",
                  "envoy", "caddy", "traefik")  # fmt: skip
"""Programs that listen for a server and are none."""

_LINUX: Final = r"""
watched() {
  h=$(printf %04X "$1")
  n=$(cat /proc/net/tcp /proc/net/tcp6 | while read -r _ l _ s _ _ _ _ _ i _; do
    case $l:$s in *:$h:0A) echo "$i"; break;; esac; done)
  f=
  [ -n "$n" ] && f=$(find /proc/[0-9]*/fd -lname "socket:\[$n\]" | head -n 1)
  f=${f#/proc/}; f=${f%%/*}
  how=port
  if [ -n "$f" ]; then
    read -r c </proc/$f/comm
    case $c in PROXIES) f=;; esac
  fi
  if [ -z "$f" ]; then
    how=name m=0
    for d in /proc/[0-9]*; do
      c=; read -r c <$d/comm
      [ -n "$c" ] && [ "$c" = "$2" ] || continue
      s=; read -r s <$d/stat
      s=${s##*) }; s=${s#* }; c=; read -r c </proc/${s%% *}/comm
      [ "$c" = "$2" ] || { m=$((m+1)) f=${d#/proc/}; }
    done
    [ $m = 1 ] || f=
  fi
  echo "@X ${f:--} $how"
  w=$f
}
vitals() {
  w= k=0
  while :; do
    [ -n "$1" ] && [ -z "$w" ] && [ $((k % 10)) = 0 ] && watched "$1" "$2"
    k=$((k+1))
    read -r u _ </proc/uptime
    read -r c </proc/stat
    { read -r _ t _; read -r _; read -r a v _; } </proc/meminfo
    [ "$a" = MemAvailable: ] || v=-
    o="@T $u
@c $c
@m $t $v
@w $(grep pswpin /proc/vmstat)"
    if [ -n "$w" ]; then
      i=0 x=
      for p in $w $(cat /proc/$w/task/*/children); do
        [ $((i=i+1)) -gt 16 ] && break
        s=; read -r s </proc/$p/stat && o="$o
@s $s"
        [ $i = 1 ] && x=$s
      done
      [ -n "$x" ] || w=
    fi
    echo "$o
@e"
    sleep 1
  done
}
about() {
  echo "@C $(grep -m 1 '^model name' /proc/cpuinfo)"
  read -r _ t _ </proc/meminfo
  echo "@M $t"
}
"""
_OTHER: Final = r"""
vitals() {
  w= k=0
  while :; do
    [ -n "$1" ] && [ -z "$w" ] && [ $((k % 10)) = 0 ] && {
      w=$(lsof -nP -iTCP:"$1" -sTCP:LISTEN -t | head -n 1)
      echo "@X ${w:--} port"
    }
    k=$((k+1))
    [ -n "$w" ] && {
      p=$(ps -o rss=,time= -p "$w")
      [ -n "$p" ] || w=
      [ -n "$p" ] && echo "@p $w $p"
    }
    sleep 1
  done
}
about() {
  echo "@C $(sysctl -n machdep.cpu.brand_string)"
  echo "@M $(($(sysctl -n hw.memsize) / 1024))"
}
"""
_SCRIPT: Final = r"""
exec 2>/dev/null
LC_ALL=C; export LC_ALL
PATH=$PATH:/usr/bin:/bin:/usr/sbin:/sbin; export PATH
case $(uname -s) in
Linux)LINUX;;
*)OTHER;;
esac
gpus() {
  q=$(command -v nvidia-smi) || for d in /usr/local/bin /usr/lib/wsl/lib /run/current-system/sw/bin /opt/bin; do
    [ -x $d/nvidia-smi ] && q=$d/nvidia-smi && break
  done
  [ -n "$q" ] || { echo "@g -"; return; }
  while :; do
    for f in VARYING; do
      s=$( { { "$q" --query-gpu=FIELDS,$f,name --format=csv,noheader,nounits -l 1; echo $? >&3; } |
        while IFS= read -r l; do echo "@G $l"; done >&4; } 3>&1 )
      [ "$s" = 2 ] || break
    done
    echo "@g $s"
    sleep 10
  done 4>&1
}
users() {
  q=$(command -v nvidia-smi) || return
  while :; do
    "$q" --query-compute-apps=gpu_uuid,pid --format=csv,noheader | while IFS= read -r l; do echo "@A $l"; done
    echo "@a"
    sleep 5
  done
}
echo "@H $(uname -s) $(getconf _NPROCESSORS_ONLN) $(getconf CLK_TCK) $(getconf PAGESIZE)"
echo "@N $(uname -n)"
echo "@K $(uname -r)"
vitals "" & v=$!
gpus &
users &
about &
while read -r o x; do
  case $o in
  E) echo "@E $x";;
  W) kill $v; vitals $x & v=$!;;
  esac
done
kill 0
exit
"""


def script() -> bytes:
    """The script as it is sent."""
    text = _SCRIPT.replace("LINUX", _LINUX).replace("OTHER", _OTHER)
    for name, value in (
        ("VARYING", " ".join(_VARYING)),
        ("FIELDS", ",".join(FIELDS)),
        ("PROXIES", "|".join(PROXIES)),
    ):
        text = text.replace(name, value)
    # Some shells read ahead: in braces nothing runs, and nothing is said, before all of it was read. So no order is lost.
    return b"{\n" + text.strip().encode() + b"\n}\n"
