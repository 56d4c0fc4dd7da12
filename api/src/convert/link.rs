use rsm_proto::v1;

use crate::model::{Link, LinkEnd};
use crate::v1_fields::{link_speed, link_width};

impl From<LinkEnd> for v1::LinkEnd {
    fn from(end: LinkEnd) -> Self {
        v1::LinkEnd {
            port: Some(end.key.into()),
            description: end.description,
            kind: end.kind.into(),
        }
    }
}

impl From<Link> for v1::Link {
    fn from(link: Link) -> Self {
        v1::Link {
            a: Some(link.a.into()),
            b: Some(link.b.into()),
            state: link.state.into(),
            width: link_width(link.width).into(),
            speed: link_speed(link.speed).into(),
            damped: link.damped,
        }
    }
}
