//! Tests of topology files of NCCL.

use rsm_gdr::import::{ImportReason, InventoryFormat};
use rsm_gdr::inventory::{LinkLayer, Tier};
use rsm_ids::Guid;

use super::{read, refused};

#[test]
fn adapters_of_virtual_machines_and_data_direct_are_read() {
    let with = |from: &str, to: &str| read(InventoryFormat::NcclXml, &TOPOLOGY.replace(from, to));
    // A virtual machine shows another class, a partial file none: neither means Ethernet.
    for class in ["class=\"0x028000\"", ""] {
        let host = with("class=\"0x020700\"", class);
        assert_eq!(host.hca_ports[0].link_layer, None);
        assert_eq!(host.tier(1, 0), Some(Tier::Pix));
    }
    let bridge = with("class=\"0x060400\"", "");
    assert_eq!(bridge.tier(1, 0), Some(Tier::Pix));
    let socket = "<nic><net name=\"ib0\" dev=\"1\" port=\"0\" guid=\"0x1\"/></nic>\n      </pci>";
    let host = with(
        "guid=\"0x48b9170003a1420c\" gdr=\"1\"/></nic>\n      </pci>",
        &format!("guid=\"0x48b9170003a1420c\" gdr=\"1\"/></nic>\n{socket}"),
    );
    assert_eq!(host.hca_ports.len(), 1);
    // The adapter itself is at the other processor; GPUDirect uses the function near GPU 1.
    let both = with("arch=\"arm64\">\n    <pci busid=\"0000:81", "arch=\"arm64\">
    <pci busid=\"0000:91:00.0\" class=\"0x020700\">
      <nic><net name=\"mlx5_0\" dev=\"1\" speed=\"400000\" port=\"1\" guid=\"0x48b9170003a1420c\" gdr=\"0\"/></nic>
    </pci>
    <pci busid=\"0000:81");
    let [port] = &both.hca_ports[..] else {
        panic!("{:?}", both.hca_ports);
    };
    assert!(port.data_direct);
    assert_eq!(port.gdr, Some(true));
    assert_eq!(
        port.pci.map(|pci| pci.to_string()).as_deref(),
        Some("0000:91:00.0")
    );
    assert_eq!(
        [both.tier(0, 0), both.tier(1, 0)],
        [Some(Tier::Sys), Some(Tier::Pix)]
    );
}

pub(super) const TOPOLOGY: &str = r#"<system version="1">
  <cpu numaid="0" arch="arm64">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="" link_width="0">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="" link_width="0">
        <gpu dev="1" sm="100" rank="1" gdr="1">
          <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>
          <c2c bw="40000" count="1"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x020700" link_speed="" link_width="0">
        <nic><net name="mlx5_0_dma" dev="0" speed="400000" port="1" guid="0x48b9170003a1420c" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="arm64">
    <pci busid="0000:81:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="0" sm="100" rank="0" gdr="1">
        <nvlink target="fffffff:ff:ff.0" count="17" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"#;

#[test]
fn links_to_nvswitches_c2c_and_data_direct_are_read() {
    let host = read(InventoryFormat::NcclXml, TOPOLOGY);
    assert_eq!(
        host.gpus[0].pci.map(|pci| pci.to_string()).as_deref(),
        Some("0000:81:00.0")
    );
    assert_eq!(
        [host.gpus[0].switch_links, host.gpus[1].switch_links],
        [Some(17), Some(18)]
    );
    assert_eq!(host.links_between(0, 1), 17);
    assert_eq!(
        [host.gpus[0].c2c_gbytes, host.gpus[1].c2c_gbytes],
        [None, Some(40)]
    );
    let port = &host.hca_ports[0];
    assert_eq!(
        (port.device.as_deref(), port.data_direct),
        (Some("mlx5_0"), true)
    );
    assert_eq!(
        (port.gbps, port.link_layer),
        (Some(400), Some(LinkLayer::InfiniBand))
    );
    // The bytes of the system image GUID are in the host's order.
    assert_eq!(port.system_image_guid, Some(Guid(0x0c42_a103_0017_b948)));
    assert_eq!(
        [host.tier(0, 0), host.tier(1, 0)],
        [Some(Tier::Sys), Some(Tier::Pix)]
    );
    assert_eq!(host.link_family.to_string(), "NVLink 5");
}

#[test]
fn declarations_and_entities_are_never_processed() {
    let bomb = format!("<!DOCTYPE system [<!ENTITY a \"aaaa\">]>\n{TOPOLOGY}");
    assert_eq!(
        refused(InventoryFormat::NcclXml, &bomb).reason,
        ImportReason::DocumentType
    );
    let external = format!("<!DOCTYPE system SYSTEM \"file:///etc/passwd\">\n{TOPOLOGY}");
    assert_eq!(
        read(InventoryFormat::NcclXml, &external),
        read(InventoryFormat::NcclXml, TOPOLOGY)
    );
    let entity = TOPOLOGY.replace("mlx5_0_dma", "&a;");
    assert!(matches!(
        refused(InventoryFormat::NcclXml, &entity).reason,
        ImportReason::Xml(_)
    ));
    let text = TOPOLOGY.replace("<c2c ", "&a;<c2c ");
    assert!(matches!(
        refused(InventoryFormat::NcclXml, &text).reason,
        ImportReason::Xml(_)
    ));
}

#[test]
fn a_bad_topology_is_refused_with_its_line() {
    let deep = format!("<system>{}", "<pci>".repeat(1000));
    let wide = format!("<system>{}</system>", "<cpu/>".repeat(200_000));
    let many = format!(
        "<system>{}</system>",
        (0..5000)
            .map(|bus| format!("<pci busid=\"{bus:x}:00:00.0\" class=\"0x030200\"/>"))
            .collect::<String>()
    );
    let cases = [
        ("", "root element `nothing`"),
        ("<graphs/>", "expected `system`"),
        ("<system>", "is not closed"),
        ("<system></cpu>", "not well-formed"),
        ("<system/><system/>", "a second root element"),
        (&deep, "levels of elements"),
        (&wide, "elements"),
        (&many, "5000 GPUs; at most 64"),
        ("<system/>", "neither a GPU nor"),
        (
            "<system><cpu><pci busid=\"x\" class=\"0x030200\"/></cpu></system>",
            "`x` as a PCI address",
        ),
        (
            "<system><cpu><pci class=\"0x030200\"/></cpu></system>",
            "`pci` without `busid`",
        ),
        (
            &TOPOLOGY.replace("guid=\"0x48b9170003a1420c\"", "guid=\"zz\""),
            "`zz` as a GUID",
        ),
        (
            &TOPOLOGY.replace("guid=\"0x48b9170003a1420c\"", "guid=\"0x+1\""),
            "`0x+1` as a GUID",
        ),
        (
            &TOPOLOGY.replace("guid=\"0x48b9170003a1420c\"", "guid=\"+1\""),
            "`+1` as a GUID",
        ),
        (
            &TOPOLOGY.replace("dev=\"1\"", "dev=\"0\""),
            "GPU0 is there twice",
        ),
    ];
    for (text, reason) in cases {
        let error = refused(InventoryFormat::NcclXml, text);
        let shown: String = text.chars().take(60).collect();
        assert!(error.to_string().contains(reason), "{shown}: {error}");
    }
    let line = refused(
        InventoryFormat::NcclXml,
        &TOPOLOGY.replace("speed=\"400000\"", "speed=\"fast\""),
    )
    .line;
    assert_eq!(line, 11);
}
