# What every script of a recipe begins with: source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"
# It can be started from any folder: "at" is the checkout's path and a slash, empty in the checkout itself. Names that
# the reader gives are the reader's. With --help it shows the script's own head.
unset CDPATH # where cd would look first, and tell what it found
script=$(basename "$0")
die() { echo "$script: $*" >&2; exit 2; }

at=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/
if [ "$at" -ef . ]; then at=; fi

case ${1:-} in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;;
esac

check_work() { # sees that fairseq takes the folder's name for what it is
  case $work in
    '') die "give a folder's name, not nothing" ;;
    -*) die "$work begins with a dash: more options stand behind --, and a folder of that name is ./$work" ;;
    *:*) die "$work: fairseq takes a colon for the end of a folder's name: choose a name without" ;;
    *'${'*) die "$work: fairseq takes \${ for a variable: choose a name without" ;;
  esac
}

check_whole() { # check_whole NAME VALUE
  [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || die "$1 is a whole number from 1, not $2"
}

check_number() { # check_number NAME VALUE: what argparse knows for a negative number, too
  [[ $2 =~ ^-?([0-9]+|[0-9]*\.[0-9]+)$ ]] || die "$1 is a number such as 0.6, not $2"
}

check_ready() { # check_ready WHAT_PREPARES TARGET: the data, and fairseq
  [ -d "$work/data-bin" ] || die "no $work/data-bin: run $1 first"
  [ -f "$work/data-bin/dict.$2.txt" ] || die "no dict.$2.txt in $work/data-bin: run $1 first"
  check_commands
}

check_commands() { # those given, or those of a recipe
  local command
  [ $# -gt 0 ] || set -- python resmlp-mt fairseq-train fairseq-generate
  for command; do
    command -v "$command" > /dev/null ||
      die "no $command on the PATH: source ${at}.venv/bin/activate first, which scripts/setup.sh makes"
  done
}
