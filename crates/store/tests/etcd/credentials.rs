//! TLS on both sides, a user and a password.

use std::path::Path;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, PermissionType, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use steadfast_store::{EtcdLocation, EtcdStore, Store, StoreError};

use crate::cluster::Cluster;
use crate::wait::until;
use crate::{LONG_TTL, lead, marks, put_job};

/// Certificates of a cluster, as files in this folder.
fn certificates(folder: &Path) {
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).expect("a file");
    let ca_key = KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(vec![]).expect("parameters");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write("ca.pem", ca.self_signed(&ca_key).expect("a certificate").pem());
    let issuer = Issuer::new(ca, ca_key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().expect("a key");
        let mut leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
        // etcd's own gateway is a client of the server, with the server's certificate.
        leaf.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        write(&format!("{name}.pem"), leaf.signed_by(&key, &issuer).expect("signed").pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
    write("password", "correct horse\n".to_owned());
    write("wrong", "battery staple\n".to_owned());
}

/// A store that has answered.
async fn open(text: &str) -> Result<EtcdStore, StoreError> {
    let store = EtcdStore::open(&text.parse::<EtcdLocation>().expect("a location"))?;
    store.load().await.map(|_| store)
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_a_password_open_what_is_closed_without() {
    let folder = tempfile::tempdir().expect("a folder");
    certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let arguments = [
        format!("--cert-file={certificate}"),
        format!("--key-file={key}"),
        format!("--trusted-ca-file={}", file("ca.pem")),
        "--client-cert-auth".to_owned(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let cluster = Cluster::spawn(1, &arguments, "https");
    let url = &cluster.nodes[0].url;

    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    let tls = TlsOptions::new()
        .ca_certificate(Certificate::from_pem(read("ca.pem")))
        .identity(Identity::from_pem(read("client.pem"), read("client.key")));
    let options = ConnectOptions::new().with_tls(tls);
    let mut root = until("the node answers", async || {
        let mut client = Client::connect([url], Some(options.clone())).await.ok()?;
        client.get("x", None).await.ok().map(|_| client)
    })
    .await;
    root.user_add("root", "root", None).await.expect("a user");
    root.user_add("steadfast", "correct horse", None).await.expect("a user");
    root.role_add("root").await.expect("a role");
    root.role_add("keys").await.expect("a role");
    let ours = etcd_client::Permission::new(PermissionType::Readwrite, "ours/").with_prefix();
    root.role_grant_permission("keys", ours).await.expect("a permission");
    root.user_grant_role("root", "root").await.expect("a grant");
    root.user_grant_role("steadfast", "keys").await.expect("a grant");
    root.auth_enable().await.expect("authentication begins");

    let ca = format!("etcd:{url}?ttl={LONG_TTL}&prefix=ours&ca={}", file("ca.pem"));
    let certified = format!("{ca}&cert={}&key={}", file("client.pem"), file("client.key"));
    let with = |text: &str, password: &str| {
        format!("{text}&user=steadfast&password-file={}", file(password))
    };
    let store = open(&with(&certified, "password")).await.expect("it opens");
    let mut term = lead(&store).await;
    term.commit(vec![put_job(1, "secret")]).await.expect("it commits");
    assert_eq!(marks(&store).await, [(1, "secret".to_owned())]);

    for (text, why) in [
        (with(&ca, "password"), "no certificate"),
        (certified.clone(), "no user"),
        (with(&certified, "wrong"), "the wrong password"),
        (with(&certified.replace("prefix=ours", "prefix=theirs"), "password"), "others' keys"),
    ] {
        // The alert that says why can be lost with the connection that is reset behind it; the next try tells.
        until(why, async || match open(&text).await.err() {
            Some(StoreError::Denied(_)) => Some(()),
            Some(StoreError::Unavailable(_)) => None,
            other => panic!("{why}: {other:?}"),
        })
        .await;
    }
    let missing = open(&with(&certified, "absent")).await.err();
    assert!(
        matches!(&missing, Some(StoreError::Directory { path, .. }) if path.ends_with("absent"))
    );
}
