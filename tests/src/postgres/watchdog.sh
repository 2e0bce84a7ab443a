# Controls a PostgreSQL server. $1: directory of PostgreSQL's programs; $2: directory of the server.
# Reads one command per line and prints its exit code. At the end of input, stops the server and deletes its directory.

# No signal, not even a closed output pipe, may end this script before the cleanup at the end.
trap '' HUP INT TERM PIPE
programs=$1
dir=$2
data=$dir/data
log=$dir/log

# Prefer a linguistic collation, as on most servers, so that queries that need another order must specify it.
init() {
    set -- "$programs/initdb" --pgdata="$data" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync
    "$@" --locale-provider=icu --icu-locale=en-US || { rm -rf "$data" && "$@"; }
}

start() {
    "$programs/pg_ctl" start --pgdata="$data" --log="$log" --wait --timeout=300 --options="-p $1"
}

stop() {
    "$programs/pg_ctl" stop --pgdata="$data" --mode=immediate --wait --timeout=300
}

while read -r command argument; do
    case $command in
        init) init ;;
        start) start "$argument" ;;
        stop) stop ;;
        *) false ;;
    esac </dev/null >>"$log" 2>&1
    echo $?
done

stop >/dev/null 2>&1
cd / && rm -rf "$dir"
