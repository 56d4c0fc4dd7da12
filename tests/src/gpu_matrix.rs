//! The topology of a GPU host in the output format of nvidia-smi.

/// The output of `nvidia-smi topo -m` on a machine of eight GPUs with one adapter each; the GPUs in
/// `without_nvlinks` have lost all their NVLinks.
#[must_use]
pub fn gpu_matrix(without_nvlinks: &[usize]) -> String {
    let names: Vec<String> = (0..16)
        .map(|n| match n {
            0..8 => format!("GPU{n}"),
            _ => format!("NIC{}", n - 8),
        })
        .collect();
    let mut text = format!("\t{}\tCPU Affinity\tNUMA Affinity\n", names.join("\t"));
    for (row, name) in names.iter().enumerate() {
        let has_lost = |gpu: &usize| without_nvlinks.contains(gpu);
        let cell = |column: usize| match () {
            () if row == column => " X ",
            () if row < 8 && column < 8 && !has_lost(&row) && !has_lost(&column) => "NV18",
            () if row % 8 == column % 8 => "PIX",
            () if row % 8 / 4 == column % 8 / 4 => "NODE",
            () => "SYS",
        };
        let cells: Vec<&str> = (0..16).map(cell).collect();
        let tail = if row < 8 { "\t0-31\t0" } else { "" };
        text.push_str(&format!("{name}\t{}{tail}\n", cells.join("\t")));
    }
    text.push_str("\nNIC Legend:\n\n");
    (0..8).for_each(|nic| text.push_str(&format!("  NIC{nic}: mlx5_{nic}\n")));
    text
}
