//! The cluster proxy beside a host cluster's kube-apiserver.
