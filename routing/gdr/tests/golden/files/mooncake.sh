export CUDA_DEVICE_ORDER=PCI_BUS_ID
rsm_gpu() (
rank=${1:-${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${PALS_LOCAL_RANKID:-${LOCAL_RANK:-0}}}}}
visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
visible=$(printf %s "$visible" | tr -d '[:blank:]')
allotted=$(printf %s "${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:-}}" | tr -d '[:blank:]')
here= open= minors=yes
for at in $(LC_ALL=C ls /proc/driver/nvidia/gpus 2>/dev/null); do
  here="$here $at"
  minor=$(sed -n 's/^Device Minor:[[:blank:]]*//p' "/proc/driver/nvidia/gpus/$at/information" 2>/dev/null) || minor=
  case "$minor" in
  ''|*[!0-9]*) minors= ;;
  *) (: <"/dev/nvidia$minor") 2>/dev/null || continue ;;
  esac
  open="$open $at"
done
gpu_of() {
  gpu=$1
  case "$gpu" in
  ''|*[!0-9]*|0?*) ;;
  *) if [ -n "$here" ] && { [ -n "$minors" ] || [ -z "$allotted" ]; }; then
      gpu=$(printf '%s\n' $open | sed -n "$((gpu + 1))p")
      gpu=${gpu:-"$1 (the process sees fewer GPUs)"}
    elif [ -n "$allotted" ]; then
      by_slurm
    fi ;;
  esac
}
by_slurm() {
  job= host=yes
  listed=${visible:-$gpu}
  seen=$(printf '%s,' "$listed" | tr -cd , | wc -c)
  total=$(printf '%s,' "$allotted" | tr -cd , | wc -c)
  if [ -z "$visible" ] || [ "$seen" -eq "$total" ]; then job=yes; fi
  for one in $(printf %s "$listed" | tr , ' '); do
    case ",$allotted," in *",$one,"*) ;; *) host= ;; esac
    case "$one" in
    ''|*[!0-9]*|0?*) job= host= ;;
    *) [ "$one" -lt "$total" ] || job= ;;
    esac
  done
  nth=$(printf '%s,\n' "$allotted" | cut -d, -f$((gpu + 1)))
  case "$job,$host" in
  yes,yes) [ "$listed" = "$allotted" ] || [ "$nth" = "$gpu" ] || gpu="$gpu (ambiguous: the host's number, or a position among the GPUs that Slurm allotted: $allotted)" ;;
  yes,) gpu=$nth ;;
  ,yes) ;;
  *) gpu="$gpu (cannot be matched with the GPUs that Slurm allotted: $allotted)" ;;
  esac
}
gpu=$rank
if [ -n "$visible" ]; then
  count=$(printf '%s,' "$visible" | tr -cd , | wc -c)
  gpu=$(printf '%s,\n' "$visible" | cut -d, -f$((rank % count + 1)))
fi
gpu_of "$gpu"
printf '%s\n' "$gpu"
)
rsm_mooncake() (
unset MC_CUSTOM_TOPO_JSON
visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
seen=$(printf %s "${visible:+$visible,}" | tr -cd , | wc -c)
most=8
all= number=0
while [ $number -lt $((seen > 0 ? seen : most)) ]; do
  gpu=$(rsm_gpu $number)
  case "$gpu" in
  0|0000:10:01.0) row='[["mlx5_0"],["mlx5_1","mlx5_2"]]' ;;
  1|0000:12:01.0) row='[["mlx5_1"],["mlx5_0","mlx5_2"]]' ;;
  2|0000:14:01.0) row='[["mlx5_2"],["mlx5_0","mlx5_1"]]' ;;
  3|0000:16:01.0) row='[["mlx5_3"],["mlx5_0","mlx5_1"]]' ;;
  4|0000:98:01.0) row='[["mlx5_4"],["mlx5_5","mlx5_6"]]' ;;
  5|0000:9a:01.0) row='[["mlx5_5"],["mlx5_4","mlx5_6"]]' ;;
  6|0000:9c:01.0) row='[["mlx5_6"],["mlx5_4","mlx5_5"]]' ;;
  7|0000:9e:01.0) row='[["mlx5_7"],["mlx5_4","mlx5_5"]]' ;;
*) if [ $seen -eq 0 ] && [ $number -gt 0 ]; then break; fi
    echo "this host has no adapter for GPU $gpu" >&2
    exit 1 ;;
  esac
  all="${all:+$all,}
  \"cuda:$number\": $row"
  number=$((number + 1))
done
all="$all,
  \"cpu:0\": "'[["mlx5_0","mlx5_1","mlx5_2","mlx5_3"],["mlx5_4","mlx5_5","mlx5_6","mlx5_7"]]'
all="$all,
  \"cpu:1\": "'[["mlx5_4","mlx5_5","mlx5_6","mlx5_7"],["mlx5_0","mlx5_1","mlx5_2","mlx5_3"]]'
file=$(mktemp "${TMPDIR:-/tmp}/mooncake.XXXXXX") || exit 1
printf '{%s\n}\n' "$all" >"$file" || exit 1
printf '%s\n' "$file"
)
if file=$(rsm_mooncake); then export MC_CUSTOM_TOPO_JSON="$file"; else unset MC_CUSTOM_TOPO_JSON; fi
