# What every train.sh takes behind the system: [WORK] [-- more options of fairseq-train]. Sourced with the default as work;
# leaves work, and the options as "$@".
shift
if [ $# -gt 0 ] && [ "$1" != -- ]; then work=$1 && shift; fi
if [ $# -gt 0 ]; then
  [ "$1" = -- ] || die "$1 where -- should stand, before more options of fairseq-train"
  shift
fi
check_work
