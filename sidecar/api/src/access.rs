//! Derives the impersonation rights on a member from the host's RBAC, with the reason for each.
//!
//! A member lets the sidecar impersonate only the subjects that may use the member's proxy on the host. The
//! sidecar's controller and `kubectl mc access diff` share this code, which does no IO:
//!
//! - [`matching`]: the clusters' proxies that a ClusterRole grants, by the rules of RBAC's own
//!   authorizer
//! - [`index`]: from ClusterRoles and ClusterRoleBindings to the [`subject`]s of each cluster
//! - [`sent`]: the identity that the sidecar sends to a member
//! - [`builtin`]: identities of the components of Kubernetes and of its distributions
//! - [`policy`]: the subjects that the member's administrators refuse
//! - [`observed_user`]: users who made a request without being named by a binding
//! - [`rules`]: the remaining subjects, each with its reason, and the omitted subjects
//! - [`objects`]: the rules as roles and bindings of the member
//! - [`diff`]: the rights that a member has, compared with those that it should have

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
pub use objects::{Impersonator, Objects};
pub use observed_user::ObservedUser;
pub use policy::Policy;
pub use rules::{LeftOut, MemberRules, Why};
pub use subject::{Because, Subject};
