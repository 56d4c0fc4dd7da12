# The GPU of each process, for jobs that have all GPUs of their hosts. Source it before the program starts,
# and before the scripts for UCX and NVSHMEM.
export CUDA_DEVICE_ORDER=PCI_BUS_ID
rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${MPI_LOCALRANKID:-${PALS_LOCAL_RANKID:-${LOCAL_RANK:-}}}}}
gpus=
case "$(uname -n)" in
host-001|host-001.*|host-002|host-002.*|host-040|host-040.*) gpus=0,1 ;;
esac
case "$rank" in
''|*[!0-9]*) gpu= ;;
*) gpu=$(printf '%s,\n' "$gpus" | cut -d, -f$((rank + 1))) ;;
esac
visible=$(printf %s "${CUDA_VISIBLE_DEVICES:-}" | tr -d '[:blank:]')
case "$gpu,$visible," in
,*) echo "the plan has no GPU for process ${rank:-?} of $(uname -n)" >&2 ;;
"$gpu,,"|*,"$gpu",*) export CUDA_VISIBLE_DEVICES="$gpu" ;;
*) echo "process $rank sees GPUs $visible alone: GPU $gpu of the plan is not set" >&2 ;;
esac
