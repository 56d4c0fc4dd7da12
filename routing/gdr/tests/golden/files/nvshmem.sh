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
gpu=$(rsm_gpu)
case "$gpu" in
0|0000:10:01.0) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_0:1 NVSHMEM_HCA_PREFIX=mlx5_0 ;;
1|0000:12:01.0) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_1:1 NVSHMEM_HCA_PREFIX=mlx5_1 ;;
2|0000:14:01.0) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_2:1 NVSHMEM_HCA_PREFIX=mlx5_2 ;;
3|0000:16:01.0) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_3:1 NVSHMEM_HCA_PREFIX=mlx5_3 ;;
4|0000:98:01.0) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_4:1 NVSHMEM_HCA_PREFIX=mlx5_4 ;;
5|0000:9a:01.0) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_5:1 NVSHMEM_HCA_PREFIX=mlx5_5 ;;
6|0000:9c:01.0) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_6:1 NVSHMEM_HCA_PREFIX=mlx5_6 ;;
7|0000:9e:01.0) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_7:1 NVSHMEM_HCA_PREFIX=mlx5_7 ;;
*) echo "this host has no adapter for GPU $gpu" >&2 ;;
esac
unset NVSHMEM_HCA_PE_MAPPING
export NVSHMEM_IB_SL=1
