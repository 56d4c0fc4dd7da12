use clap::Args;
use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::port_or_gone;

/// Subscriptions of hosts to notices
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rsmctl subscriptions\n  rsmctl subscriptions --port gpu-0001:1"
)]
pub(crate) struct SubscriptionsArguments {
    /// Only subscriptions of this port
    #[arg(long)]
    port: Option<String>,
}

pub(crate) async fn run(
    arguments: SubscriptionsArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    let subscriptions = all_pages(
        v1::ListSubscriptionsRequest {
            port: arguments.port.clone().unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.sa().list_subscriptions(request).await,
    )
    .await?;
    session.output.list(
        subscriptions,
        ["PORT", ">NUMBER", ">QP", "NOTICES", "FROM", "TRUSTED"],
        |subscription| {
            let (notices, from) = (notices(&subscription), from(&subscription));
            [
                port_or_gone(
                    &subscription.description,
                    subscription.port.as_ref(),
                    &subscription.port_guid,
                ),
                subscription.number.to_string(),
                subscription.qpn.to_string(),
                notices,
                from,
                if subscription.trusted { "yes" } else { "" }.to_owned(),
            ]
        },
    )
}

/// The notices in words: `trap 64`, `of a vendor, device 7, urgent`.
fn notices(subscription: &v1::Subscription) -> String {
    let generic = subscription.generic;
    let mut parts = Vec::new();
    if !generic {
        parts.push(match subscription.producer_or_vendor {
            Some(vendor) => format!("of vendor {vendor:#08x}"),
            None => "of a vendor".to_owned(),
        });
    }
    if let Some(number) = subscription.trap_or_device {
        parts.push(format!(
            "{} {number}",
            if generic { "trap" } else { "device" }
        ));
    }
    parts.extend(subscription.notice_type.map(|number| match number {
        0 => "fatal".to_owned(),
        1 => "urgent".to_owned(),
        2 => "security".to_owned(),
        3 => "subnet management".to_owned(),
        4 => "informational".to_owned(),
        other => format!("type {other}"),
    }));
    if generic {
        let producer = subscription.producer_or_vendor;
        parts.extend(producer.map(|number| match number {
            1 => "of channel adapters".to_owned(),
            2 => "of switches".to_owned(),
            3 => "of routers".to_owned(),
            4 => "of managers".to_owned(),
            other => format!("of producers {other:#x}"),
        }));
    }
    if parts.is_empty() {
        return "all".to_owned();
    }
    parts.join(", ")
}

/// The sources of the notices: `any port`, `fe80::2:c903:0:1234`, `LID 4`, `LIDs 4 to 9`.
fn from(subscription: &v1::Subscription) -> String {
    match &subscription.source_lids {
        Some(v1::LidRange { first: 0, last: 0 }) => "no port".to_owned(),
        Some(range) if range.first == range.last => format!("LID {}", range.first),
        Some(range) => format!("LIDs {} to {}", range.first, range.last),
        None if subscription.source_gid.is_empty() => "any port".to_owned(),
        None => subscription.source_gid.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notices_of_a_subscription_read_as_a_list() {
        let text = |generic, trap_or_device, notice_type, producer_or_vendor| {
            notices(&v1::Subscription {
                generic,
                trap_or_device,
                notice_type,
                producer_or_vendor,
                ..Default::default()
            })
        };
        assert_eq!(text(true, None, None, None), "all");
        assert_eq!(text(true, Some(64), None, None), "trap 64");
        let all = text(true, Some(128), Some(1), Some(2));
        assert_eq!(all, "trap 128, urgent, of switches");
        assert_eq!(text(false, None, None, None), "of a vendor");
        let vendors = text(false, Some(7), Some(9), Some(0x2C9));
        assert_eq!(vendors, "of vendor 0x0002c9, device 7, type 9");
    }

    #[test]
    fn the_sources_of_a_subscription_read_as_ports_or_lids() {
        let of = |first, last| {
            from(&v1::Subscription {
                source_lids: Some(v1::LidRange { first, last }),
                ..Default::default()
            })
        };
        assert_eq!(of(0, 0), "no port");
        assert_eq!(of(4, 4), "LID 4");
        assert_eq!(of(4, 9), "LIDs 4 to 9");
        assert_eq!(from(&v1::Subscription::default()), "any port");
    }
}
