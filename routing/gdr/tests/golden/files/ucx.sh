export CUDA_DEVICE_ORDER=PCI_BUS_ID
gpu=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${PALS_LOCAL_RANKID:-${LOCAL_RANK:-0}}}}
visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
if [ -n "$visible" ]; then
  count=$(printf '%s,' "$visible" | tr -cd ',' | wc -c)
  gpu=$(printf '%s' "$visible" | cut -d, -f$((gpu % count + 1)))
fi
case "$gpu" in
0) export UCX_NET_DEVICES=mlx5_0:1 UCX_IB_SL=1 ;;
1) export UCX_NET_DEVICES=mlx5_1:1 UCX_IB_SL=1 ;;
2) export UCX_NET_DEVICES=mlx5_2:1 UCX_IB_SL=1 ;;
3) export UCX_NET_DEVICES=mlx5_3:1 UCX_IB_SL=1 ;;
4) export UCX_NET_DEVICES=mlx5_4:1 UCX_IB_SL=1 ;;
5) export UCX_NET_DEVICES=mlx5_5:1 UCX_IB_SL=1 ;;
6) export UCX_NET_DEVICES=mlx5_6:1 UCX_IB_SL=1 ;;
7) export UCX_NET_DEVICES=mlx5_7:1 UCX_IB_SL=1 ;;
*) echo "no adapter is known for GPU $gpu of this host" >&2 ;;
esac
