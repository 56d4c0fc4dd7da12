export CUDA_DEVICE_ORDER=PCI_BUS_ID
gpu=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${PALS_LOCAL_RANKID:-${LOCAL_RANK:-0}}}}
visible=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${HIP_VISIBLE_DEVICES:-}}}
if [ -n "$visible" ]; then
  count=$(printf '%s,' "$visible" | tr -cd ',' | wc -c)
  gpu=$(printf '%s' "$visible" | cut -d, -f$((gpu % count + 1)))
fi
here=$(LC_ALL=C ls /proc/driver/nvidia/gpus 2>/dev/null) || here=
case "$here,$gpu" in
,*|*,|*,*[!0-9]*) ;;
*) gpu=$(printf '%s\n' "$here" | sed -n "$((gpu + 1))p")
  gpu=${gpu:-beyond those that are visible} ;;
esac
case "$gpu" in
0|0000:10:01.0) export UCX_NET_DEVICES=mlx5_0:1 UCX_IB_SL=1 ;;
1|0000:12:01.0) export UCX_NET_DEVICES=mlx5_1:1 UCX_IB_SL=1 ;;
2|0000:14:01.0) export UCX_NET_DEVICES=mlx5_2:1 UCX_IB_SL=1 ;;
3|0000:16:01.0) export UCX_NET_DEVICES=mlx5_3:1 UCX_IB_SL=1 ;;
4|0000:98:01.0) export UCX_NET_DEVICES=mlx5_4:1 UCX_IB_SL=1 ;;
5|0000:9a:01.0) export UCX_NET_DEVICES=mlx5_5:1 UCX_IB_SL=1 ;;
6|0000:9c:01.0) export UCX_NET_DEVICES=mlx5_6:1 UCX_IB_SL=1 ;;
7|0000:9e:01.0) export UCX_NET_DEVICES=mlx5_7:1 UCX_IB_SL=1 ;;
*) echo "no adapter is known for GPU $gpu of this host" >&2 ;;
esac
