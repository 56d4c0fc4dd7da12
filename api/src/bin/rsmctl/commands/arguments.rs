//! The command line as a whole.

use clap::Parser;

use super::Command;
use crate::arguments::Global;

/// Queries and controls a running rsm.
#[derive(Debug, Parser)]
#[command(name = "rsmctl", version, after_long_help = LONG_HELP, after_help = HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const HELP: &str = "\
Nodes and ports are named by GUID (0x0002c90300001234, or 0x0002c90300001234:2 for its port 2),
LID (17), GID (fe80::2:c903:0:1234) or node description (leaf-03, leaf-03:7). `rsmctl --help` has examples and the exit status.";

const LONG_HELP: &str = "\
Nodes and ports:
  0x0002c90300001234    the node or port with that GUID
  0x0002c90300001234:2  port 2 of that node
  17, 0x11              the port with that LID
  fe80::2:c903:0:1234   the port with that GID
  leaf-03, leaf-03:7    the node with that description, and port 7 of it; any part that only one has will do
  guid:11 lid:11 gid:::11 name:11  the port or node by that kind of name, where a text fits several

Examples:
  rsmctl status
  rsmctl nodes --kind switch
  rsmctl links --sort state
  rsmctl history --sort=-total --limit 5
  rsmctl ports --node leaf-03 --state init
  rsmctl route gpu-0001:1 gpu-0777:1
  rsmctl path gpu-0001:1 gpu-0777:1 --pkey 0x8010
  rsmctl multicast ff12:401b:ffff::ffff:ffff
  rsmctl history --format json | jq '.[-1].timing_ms'
  rsmctl sim unlink leaf-03 7 && rsmctl events --newest 5

Short words:
  errors                `rsmctl top --errors`
  hosts, switches       `rsmctl nodes --kind ca`, `rsmctl nodes --kind switch`

Server:
The first of these that answers, unless --socket, --server or RSM_SERVER names one:
  unix:/run/rsm/rsm.sock
  unix:$XDG_RUNTIME_DIR/rsm/rsm.sock
  unix:/var/lib/rsm/rsm.sock
  unix:$XDG_STATE_HOME/rsm/rsm.sock
  unix:$HOME/.local/state/rsm/rsm.sock
  http://127.0.0.1:50051
Over TCP rsm serves requests that change something only to clients that prove an identity, by
--cert and --key or by --token-file, unless it was started with --insecure-admin.

Exit status:
  0  done; also if the reader of the output ended first
  1  the server refused, found nothing, there is no path, or the route does not arrive
  2  the command line is wrong, or names a column that the table does not have
  3  no server could be reached, or the connection broke
  4  a check of `report` warns, and none fails; `blame` cannot say; a drained part is not safe to
     unplug yet, or ports do not hold their new M_Key yet
  5  a check of `report` fails; `blame` finds the fabric at fault; a drained part is NOT safe to
     unplug
  6  the server accepted and keeps a change, and ports or switches do not hold it yet";
