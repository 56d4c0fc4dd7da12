export CUDA_DEVICE_ORDER=PCI_BUS_ID
gpu=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${PALS_LOCAL_RANKID:-${LOCAL_RANK:-0}}}}
visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
if [ -n "$visible" ]; then
  count=$(printf '%s,' "$visible" | tr -cd ',' | wc -c)
  gpu=$(printf '%s' "$visible" | cut -d, -f$((gpu % count + 1)))
fi
case "$gpu" in
0) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_0:1 ;;
1) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_1:1 ;;
2) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_2:1 ;;
3) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_3:1 ;;
4) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_4:1 ;;
5) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_5:1 ;;
6) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_6:1 ;;
7) export NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_7:1 ;;
*) echo "no adapter is known for GPU $gpu of this host" >&2 ;;
esac
unset NVSHMEM_HCA_PE_MAPPING
export NVSHMEM_IB_SL=1
