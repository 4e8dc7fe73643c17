//! Bytes on the TLS port that are not a valid handshake lead to an alert and cost nothing.

use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::http1::Endpoint;

#[test]
fn fault_41_plain_text_is_answered_by_an_alert() -> Result<()> {
    let answer = answer(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")?;
    is_an_alert(&answer)?;
    serves()
}

#[test]
fn fault_41_tls_1_0_and_1_1_are_answered_by_an_alert() -> Result<()> {
    for version in [1, 2] {
        let answer = answer(&hello(version, &[]))?;
        is_an_alert(&answer)?;
        ensure!(
            answer[6] == PROTOCOL_VERSION || answer[6] == HANDSHAKE_FAILURE,
            "TLS 1.{}: {answer:?}",
            version - 1
        );
    }
    serves()
}

#[test]
fn fault_41_hello_of_64_kib_is_answered_by_an_alert() -> Result<()> {
    // One unknown extension, near the maximum length of extensions.
    let extension = [&[0xff, 0x77][..], &65_000_u16.to_be_bytes(), &vec![0; 65_000]].concat();
    is_an_alert(&answer(&hello(3, &extension))?)?;
    serves()
}

#[test]
fn fault_41_other_server_name_gets_the_sidecars_certificate() -> Result<()> {
    // The host connects to an address and verifies the Service's name: the client decides which name it
    // accepts.
    let error = Endpoint::sidecar(sidecar()?, None)?.named("another.example")?.exchange(REQUEST).err();
    let error = format!("{:#}", error.context("the name was accepted")?);
    ensure!(error.contains("not valid for name"), "{error}");
    serves()
}

/// A ClientHello of TLS 1.`minor - 1`, with these extensions.
fn hello(minor: u8, extensions: &[u8]) -> Vec<u8> {
    let suites = [0xc0, 0x09, 0xc0, 0x13, 0xc0, 0x0a, 0x00, 0x2f];
    let mut body = vec![3, minor];
    body.extend([7; 32]); // the random
    body.push(0); // no session
    body.extend([0, suites.len() as u8]);
    body.extend(suites);
    body.extend([1, 0]); // no compression
    if !extensions.is_empty() {
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
    }
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1], &length[1..], &body].concat();
    message
        .chunks(16 * 1024)
        .flat_map(|record| [&[22, 3, 1], &(record.len() as u16).to_be_bytes()[..], record].concat())
        .collect()
}

/// The sidecar's answer to these bytes, until it closes.
fn answer(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut socket = Endpoint::sidecar(sidecar()?, None)?.dial()?;
    // The sidecar may close before it has read everything.
    let _ = socket.write_all(bytes);
    let mut answer = Vec::new();
    match socket.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error.into()),
        _ => Ok(answer),
    }
}

/// Checks for exactly one record: a fatal alert (RFC 8446, 6).
fn is_an_alert(answer: &[u8]) -> Result<()> {
    ensure!(answer.len() == 7 && answer[0] == 21 && answer[5] == 2, "no fatal alert: {answer:02x?}");
    Ok(())
}

fn serves() -> Result<()> {
    let admin = Caller::certificate("e2e-tls", &[])?;
    let answer = Endpoint::sidecar(sidecar()?, admin.certificate.as_deref())?.exchange(REQUEST)?;
    ensure!(answer.status() == 200, "it serves nobody: {}", answer.status());
    Ok(())
}

const REQUEST: &[u8] = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const HANDSHAKE_FAILURE: u8 = 40;
const PROTOCOL_VERSION: u8 = 70;
