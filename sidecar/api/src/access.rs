//! Who may be impersonated on a member, and why: from the host's RBAC to the member's.
//!
//! A member lets the sidecar be those who may use its proxy on the host, and nobody else. The way there,
//! without IO, for the sidecar's controller and for `kubectl mc access diff` alike:
//!
//! - [`matching`]: which clusters' proxies a ClusterRole reaches, as RBAC's own authorizer decides it
//! - [`index`]: from ClusterRoles and ClusterRoleBindings to the [`subject`]s of each cluster
//! - [`sent`]: whom the sidecar ever shows to a member
//! - [`builtin`]: identities of Kubernetes' and its distributions' own components
//! - [`policy`]: whom the member's administrators refuse
//! - [`observed_user`]: users who came without being named by a binding
//! - [`rules`]: the subjects that are left, each with its reason, and those left out
//! - [`objects`]: the rules as roles and bindings of the member
//! - [`diff`]: what a member has, against what it should have

pub mod builtin;
pub mod diff;
pub mod index;
pub mod matching;
pub mod objects;
pub mod observed_user;
pub mod policy;
pub mod rules;
pub mod sent;
pub mod subject;

pub use diff::{Actual, Difference, Right};
pub use index::{Affected, Index};
pub use objects::Objects;
pub use observed_user::ObservedUser;
pub use policy::Policy;
pub use rules::{LeftOut, MemberRules, Why};
pub use subject::{Because, Subject};
