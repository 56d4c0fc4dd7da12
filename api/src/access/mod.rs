//! Access control: identities and their proofs, roles, the role that each call needs, rates, and
//! the audit log.
//!
//! A request passes the `guard` before any handler. The guard takes the identity from the
//! connection ([`Peer`]) or from a bearer token ([`TokenVerifier`]), the rights of the identity
//! from the roles file ([`RoleTable`]), and the right that the call needs from one table
//! ([`calls`]). The guard refuses a call that is missing in the table.
//!
//! A test fails if a call has no line in the table.

mod api_tokens;
pub mod audit;
pub mod calls;
mod digest;
mod guard;
mod identity;
mod rates;
mod roles_file;
pub mod tls;
mod token;

pub use self::api_tokens::{ApiTokens, ApiTokensError, MAX_API_TOKENS_BYTES, TOKEN_BYTES};
pub use self::audit::{AuditEntry, AuditSink, NoAudit};
pub use self::digest::digest_of;
pub(crate) use self::guard::GuardLayer;
pub use self::guard::{AccessPolicy, Anonymous, Followed, Gate};
pub(crate) use self::identity::StatedOperator;
pub use self::identity::{Caller, Certificate, OPERATOR_METADATA, Peer, Proof};
pub use self::rates::RateSettings;
pub use self::roles_file::{MAX_ROLES_BYTES, RoleTable, RolesError};
pub use self::token::{JwksError, MAX_JWKS_BYTES, TokenError, TokenSettings, TokenVerifier};
pub use crate::role::{Grant, Need, Role};
