# Watches over a server: $1 is the folder of PostgreSQL's programs, $2 the folder of the server.
# Orders come line by line; each is answered with an exit code. When they end, for whatever reason, the server ends.

# Not even a reader who is gone may end this script before its last lines.
trap '' HUP INT TERM PIPE
programs=$1
folder=$2
data=$folder/data
log=$folder/log

# Where it can be had, words sort as in a dictionary, as on most servers: who needs another order has to ask for it.
init() {
    set -- "$programs/initdb" --pgdata="$data" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync
    "$@" --locale-provider=icu --icu-locale=en-US || { rm -rf "$data" && "$@"; }
}

start() {
    "$programs/pg_ctl" start --pgdata="$data" --log="$log" --wait --timeout=60 --options="-p $1"
}

stop() {
    "$programs/pg_ctl" stop --pgdata="$data" --mode=immediate --wait --timeout=60
}

while read -r order argument; do
    case $order in
        init) init ;;
        start) start "$argument" ;;
        stop) stop ;;
        *) false ;;
    esac </dev/null >>"$log" 2>&1
    echo $?
done

stop >/dev/null 2>&1
cd / && rm -rf "$folder"
