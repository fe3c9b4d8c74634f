//! Agent cards in every shape, and their signatures.

use crate::a2a::{
    A2aAgentCard, AgentCardSignature, CanonicalForm, CardShape, Codec, ProtectedHeader, WireFormat,
    WireObject, signing_input,
};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

fn read_card(json: &Value) -> A2aAgentCard {
    A2aAgentCard::decode(&json.to_string(), Codec::client(WireFormat::V1)).unwrap()
}

fn write_card(card: &A2aAgentCard, shape: CardShape) -> Value {
    serde_json::to_value(card.in_shape(shape)).unwrap()
}

/// A card of 1.0 with every member.
fn card_v1() -> Value {
    let url = "https://a.example/a2a";
    let flow = |url_name: &str| {
        json!({url_name: "https://a.example/x",
        "tokenUrl": "https://a.example/token", "scopes": {"a2a": "All methods"}})
    };
    json!({
        "name": "Zoë", "description": "d", "version": "1.2.3",
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
            {"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
        ],
        "provider": {"organization": "o", "url": "https://a.example"},
        "documentationUrl": "https://a.example/docs", "iconUrl": "https://a.example/icon",
        "capabilities": {"streaming": true, "pushNotifications": false, "extendedAgentCard": true,
            "extensions": [{"uri": "urn:interzone:resume:1", "description": "e",
                "params": {"k": 1}}]},
        "securitySchemes": {
            "oauth_client": {"oauth2SecurityScheme": {"flows": {"clientCredentials":
                {"tokenUrl": "https://a.example/token", "scopes": {"a2a": "All methods"}}},
                "oauth2MetadataUrl": "https://a.example/.well-known/oauth-authorization-server"}},
            "oauth_device": {"oauth2SecurityScheme": {"flows": {"deviceCode":
                flow("deviceAuthorizationUrl")}}},
            "oauth_user": {"oauth2SecurityScheme": {"flows": {"authorizationCode": {
                "authorizationUrl": "https://a.example/x", "tokenUrl": "https://a.example/token",
                "scopes": {"a2a": "All methods"}, "pkceRequired": true}}}},
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
            "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
            "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://a.example/oidc"}},
            "mtls": {"mtlsSecurityScheme": {"description": "certificate"}},
        },
        "securityRequirements": [
            {"schemes": {"oauth_client": {"list": ["a2a"]}}},
            {"schemes": {"oauth_device": {"list": ["a2a"]}}},
            {"schemes": {"mtls": {}}},
        ],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"],
            "examples": ["e"], "inputModes": ["text/plain"], "outputModes": ["text/plain"],
            "securityRequirements": [{"schemes": {"key": {}}}]}],
        "signatures": [{"protected": "p", "signature": "s", "header": {"k": 1}}],
    })
}

#[test]
fn card_of_1_0_round_trips() {
    let card = read_card(&card_v1());
    assert_eq!(write_card(&card, CardShape::V1), card_v1());
}

#[test]
fn card_of_0_3_has_no_members_of_1_0() {
    let card = write_card(&read_card(&card_v1()), CardShape::V03);
    let url = "https://a.example/a2a";
    assert_eq!(card["protocolVersion"], "0.3.0");
    assert_eq!(
        (&card["url"], &card["preferredTransport"]),
        (&json!(url), &json!("JSONRPC"))
    );
    let interfaces = json!([{"url": url, "transport": "JSONRPC"},
        {"url": url, "transport": "HTTP+JSON"}]);
    assert_eq!(card["additionalInterfaces"], interfaces);
    assert_eq!(card["supportsAuthenticatedExtendedCard"], true);
    assert_eq!(
        card["capabilities"],
        json!({"streaming": true, "pushNotifications": false,
        "extensions": [{"uri": "urn:interzone:resume:1", "description": "e", "params": {"k": 1}}]})
    );
    assert_eq!(
        card["security"],
        json!([{"oauth_client": ["a2a"]}, {"mtls": []}])
    );
    assert_eq!(card["skills"][0]["security"], json!([{"key": []}]));
    assert_eq!(
        card["securitySchemes"],
        json!({
            "oauth_client": {"type": "oauth2", "flows": {"clientCredentials":
                {"tokenUrl": "https://a.example/token", "scopes": {"a2a": "All methods"}}},
                "oauth2MetadataUrl": "https://a.example/.well-known/oauth-authorization-server"},
            "oauth_user": {"type": "oauth2", "flows": {"authorizationCode": {
                "authorizationUrl": "https://a.example/x", "tokenUrl": "https://a.example/token",
                "scopes": {"a2a": "All methods"}, "pkceRequired": true}}},
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "bearer": {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT"},
            "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://a.example/oidc"},
            "mtls": {"type": "mutualTLS", "description": "certificate"},
        })
    );
    for absent in ["supportedInterfaces", "securityRequirements", "signatures"] {
        assert_eq!(card.get(absent), None);
    }
    assert_eq!(card["skills"][0].get("securityRequirements"), None);
}

#[test]
fn hybrid_card_has_the_members_of_both_versions() {
    let card = read_card(&card_v1());
    let hybrid = write_card(&card, CardShape::Hybrid);
    let v1 = write_card(&card.readable_in_v03(), CardShape::V1);
    let v03 = write_card(&card, CardShape::V03);
    assert_includes(&hybrid, &v1);
    assert_includes(&hybrid, &v03);
    // A hybrid is read as a card of 1.0, and so has its signature.
    assert_eq!(read_card(&hybrid), card.readable_in_v03());
}

/// Asserts that every member of `part` is in `whole`, at every depth.
fn assert_includes(whole_card: &Value, part: &Value) {
    match (whole_card, part) {
        (Value::Object(members), Value::Object(part)) => {
            for (name, value) in part {
                assert_includes(&members[name], value);
            }
        }
        (Value::Array(items), Value::Array(part)) => {
            assert_eq!(items.len(), part.len());
            items
                .iter()
                .zip(part)
                .for_each(|(item, part)| assert_includes(item, part));
        }
        _ => assert_eq!(whole_card, part),
    }
}

#[test]
fn card_of_0_3_is_read_into_the_model_of_1_0() {
    let v03 = write_card(&read_card(&card_v1()), CardShape::V03);
    let card = read_card(&v03);
    let mut expected = read_card(&card_v1()).readable_in_v03();
    expected.supported_interfaces.drain(..2);
    for interface in &mut expected.supported_interfaces {
        interface.protocol_version = "0.3.0".to_owned();
    }
    expected.signatures.clear();
    assert_eq!(card, expected);
}

#[test]
fn unknown_schemes_and_members_are_ignored() {
    let card = read_card(
        &json!({"name": "a", "url": "https://a.example", "future": 1,
        "securitySchemes": {"x": {"type": "quantum"}}}),
    );
    assert!(card.security_schemes.is_empty());
    assert_eq!(card.supported_interfaces[0].protocol_version, "0.3");
}

/// The example of the contract, signed with the key of RFC 8037.
const SIGNED_CARD: &str = r#"{"name":"Zoë","description":"d","version":"1","supportedInterfaces":[{"url":"https://a.example/jsonrpc","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":""}],"capabilities":{"streaming":true,"pushNotifications":false,"extensions":[]},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"s","name":"S","description":"d","tags":["t"]}],"signatures":[]}"#;
const PAYLOAD_SHA256: &str = "a5a283b2933f5c039da82602b9fe2d2ebe59a955fb5daac3f27212f2da79e9d9";
const PROTECTED: &str = "eyJhbGciOiJFZERTQSIsImtpZCI6ImsxIiwidHlwIjoiSk9TRSJ9";
const PUBLIC_KEY: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const SIGNATURE: &str =
    "hIZXNp1Gr4X_sUP6k_JZVtxxuSHB0DP5qixqz2QZja5J00Ji4Qic6rBAvPmfV4ETeTRKts0RbwJKMyvREFiBAA";

fn decode_base64url(text: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
}

fn verify(card: &A2aAgentCard, form: CanonicalForm) -> bool {
    let input = signing_input(card, form, PROTECTED).unwrap();
    UnparsedPublicKey::new(&ED25519, decode_base64url(PUBLIC_KEY))
        .verify(input.as_bytes(), &decode_base64url(SIGNATURE))
        .is_ok()
}

#[test]
fn worked_example_has_the_payload_and_signature_of_the_contract() {
    let mut card = A2aAgentCard::decode(SIGNED_CARD, Codec::client(WireFormat::V1)).unwrap();
    for form in [CanonicalForm::Specification, CanonicalForm::Pruned] {
        let payload = card.canonical_json(form).unwrap();
        assert_eq!(payload.len(), 354);
        let start =
            r#"{"capabilities":{"pushNotifications":false,"streaming":true},"defaultInputModes""#;
        assert!(payload.starts_with(start.as_bytes()));
        let hash: String = digest(&SHA256, &payload)
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hash, PAYLOAD_SHA256);
        assert!(verify(&card, form));
    }
    assert_eq!(
        ProtectedHeader::new("EdDSA", "k1").encode().unwrap(),
        PROTECTED
    );
    card.signatures.push(AgentCardSignature {
        protected: PROTECTED.to_owned(),
        signature: SIGNATURE.to_owned(),
        header: None,
    });
    let signed = write_card(&card, CardShape::Hybrid);
    assert!(verify(&read_card(&signed), CanonicalForm::Specification));
    card.name.push('!');
    assert!(!verify(&card, CanonicalForm::Specification));
}

#[test]
fn canonical_forms_differ_in_required_and_optional_members() {
    let card = read_card(&json!({
        "name": "", "documentationUrl": "", "version": "1",
        "supportedInterfaces": [{"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": false, "extensions": [{"uri": "x", "required": false,
            "params": {"n": 1.0, "big": 9007199254740993_u64, "e": 1e21, "empty": [{}, ""]}}]},
        "securityRequirements": [{"schemes": {"mtls": {"list": []}}}],
        "securitySchemes": {"mtls": {"mtlsSecurityScheme": {}}},
        "skills": [{"id": "s"}],
        "signatures": [{"protected": "p", "signature": "s"}],
    }));
    let text = |form| String::from_utf8(card.canonical_json(form).unwrap()).unwrap();
    assert_eq!(
        text(CanonicalForm::Specification),
        concat!(
            r#"{"capabilities":{"extensions":[{"params":{"big":9007199254740992,"e":1e+21,"#,
            r#""empty":[{},""],"n":1},"uri":"x"}],"streaming":false},"defaultInputModes":[],"#,
            r#""defaultOutputModes":[],"description":"","documentationUrl":"","name":"","#,
            r#""securityRequirements":[{"schemes":{"mtls":{}}}],"#,
            r#""securitySchemes":{"mtls":{"mtlsSecurityScheme":{}}},"#,
            r#""skills":[{"description":"","id":"s","name":"","tags":[]}],"#,
            r#""supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"1.0","url":"u"}],"#,
            r#""version":"1"}"#,
        )
    );
    assert_eq!(
        text(CanonicalForm::Pruned),
        concat!(
            r#"{"capabilities":{"extensions":[{"params":{"big":9007199254740992,"e":1e+21,"#,
            r#""n":1},"uri":"x"}],"streaming":false},"skills":[{"id":"s"}],"#,
            r#""supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"1.0","url":"u"}],"#,
            r#""version":"1"}"#,
        )
    );
}

#[test]
fn canonical_members_are_sorted_by_utf16_code_units() {
    let card = read_card(&json!({"capabilities": {"extensions": [{"uri": "x",
        "params": {"\u{fb33}": 1, "\u{1f600}": 2, "\u{20ac}": 3}}]}}));
    let json = String::from_utf8(card.canonical_json(CanonicalForm::Pruned).unwrap()).unwrap();
    let params = "{\"\u{20ac}\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}";
    assert!(json.contains(params), "{json}");
}

#[test]
fn canonical_json_matches_the_examples_of_rfc_8785() {
    let card = A2aAgentCard::decode(
        r#"{"capabilities":{"extensions":[{"params":{
            "numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001,-0.0,1e20],
            "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals":[null,true,false]}}]}}"#,
        Codec::client(WireFormat::V1),
    )
    .unwrap();
    let json = String::from_utf8(card.canonical_json(CanonicalForm::Specification).unwrap());
    let params = concat!(
        r#"{"literals":[null,true,false],"#,
        r#""numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27,0,100000000000000000000],"#,
        r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
    );
    let json = json.unwrap();
    assert!(json.contains(params), "{json}");
}
