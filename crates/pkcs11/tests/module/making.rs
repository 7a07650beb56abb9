//! Certificates beside keys, keys that are made, and secrets that are agreed on.

use super::*;
use sealane_asymmetric::{PrivateKey, der};
use sealane_client::Operation;

/// Returns the structure of a certificate of this key, which nobody has signed.
fn certificate(public: &[u8]) -> Vec<u8> {
    let name = |name: &str| der::sequence(&[&der::element(0x31, &[&der::octet_string(name.as_bytes())])]);
    let algorithm = der::algorithm_of_key(KeyKind::Ed25519);
    let parts: [&[u8]; 6] = [
        &der::integer(&[1, 2, 3]),
        &algorithm,
        &name("issuer"),
        &der::sequence(&[]),
        &name("subject"),
        public,
    ];
    der::sequence(&[&der::sequence(&parts), &algorithm, &der::element(3, &[&[0, 7]])]).to_vec()
}

#[test]
fn certificates_are_objects_beside_their_keys() {
    alone("making::certificates_are_objects_beside_their_keys", |folder| {
        let mut engine = engine(folder);
        let mut client = engine.client();
        let own = certificate(&client.open("ec").unwrap().info.public);
        let other = certificate(PrivateKey::generate(KeyKind::P256).unwrap().public());
        let chain = [own.clone(), other.clone()];
        // The first one must be the key's.
        assert!(client.certify("ec", &[other.clone(), own.clone()]).is_err());
        assert!(client.certify("ec", &[own.clone(), vec![7; 100]]).is_err());
        assert!(client.certify("rsa", &chain).is_err() && client.certify("none", &chain).is_err());
        client.certify("ec", &chain).unwrap();
        engine.stop();
        engine.start_again();
        assert_eq!(client.certificates_of("ec").unwrap(), chain);
        assert_eq!(client.certificates().unwrap().len(), 1);
        let module = Module::initialized();
        let session = module.open().unwrap();
        let find = || {
            let class = c::CKO_CERTIFICATE;
            module.find(session, &mut [attribute(c::CKA_CLASS, &class)])
        };
        let found = find();
        let value = |object, attribute| module.value(session, object, attribute);
        let values: Vec<_> = found.iter().map(|object| value(*object, c::CKA_VALUE).unwrap()).collect();
        assert!(values.len() == 2 && values.contains(&own) && values.contains(&other));
        let [private, _] = module.halves(session, "ec");
        let at = found[usize::from(values[0] != own)];
        assert_eq!(value(at, c::CKA_ID), value(private, c::CKA_ID));
        assert_eq!(value(at, c::CKA_LABEL), Ok(b"ec".to_vec()));
        let parts = der::of_certificate(&own).unwrap();
        assert_eq!(value(at, c::CKA_SUBJECT).unwrap(), parts.subject);
        assert_eq!(value(at, c::CKA_ISSUER).unwrap(), parts.issuer);
        assert_eq!(value(at, c::CKA_SERIAL_NUMBER).unwrap(), parts.serial);
        assert_eq!(value(at, c::CKA_MODULUS), Err(c::CKR_ATTRIBUTE_TYPE_INVALID));
        let wrong = module.sign(session, mechanism(c::CKM_ECDSA), at, &[7; 32]);
        assert_eq!(wrong, Err(c::CKR_KEY_HANDLE_INVALID));
        assert_eq!(call!(module, C_DestroyObject(session, at)), c::CKR_ACTION_PROHIBITED);
        assert_eq!(find(), found, "handles stay");
        // A certificate goes with its key, and with a public half that another one replaces.
        let next = PrivateKey::generate(KeyKind::P256).unwrap().to_pkcs8().unwrap();
        client.replace("ec", &next, None).unwrap();
        assert_eq!((find().len(), client.certificates_of("ec").unwrap().len()), (0, 0));
        assert!(!folder.join("keys/ec.crt").exists());
    });
}

#[test]
fn secrets_are_agreed_on_and_objects_of_their_session() {
    with_session("making::secrets_are_agreed_on_and_objects_of_their_session", |engine, module, session| {
        for (name, kind) in [
            ("ec", KeyKind::P256),
            ("ec384", KeyKind::P384),
            ("ec521", KeyKind::P521),
            ("exchange", KeyKind::X25519),
        ] {
            let [private, public] = module.halves(session, name);
            let peer = PrivateKey::generate(kind).unwrap();
            let own = engine.client().open(name).unwrap().info.public;
            let expected = peer.run(Operation::Derive, der::of_public(&own).unwrap()).unwrap();
            let point = der::of_public(peer.public()).unwrap();
            for form in [point.to_vec(), der::octet_string(point).to_vec()] {
                let (class, kind) = (c::CKO_SECRET_KEY, c::CKK_GENERIC_SECRET);
                let mut template = [attribute(c::CKA_CLASS, &class), attribute(c::CKA_KEY_TYPE, &kind)];
                let secret = module.derive(session, private, &form, &mut template).unwrap();
                assert_eq!(module.value(session, secret, c::CKA_VALUE).unwrap(), expected.to_vec(), "{name}");
                assert_eq!(call!(module, C_DestroyObject(session, secret)), c::CKR_OK);
                let again = call!(module, C_DestroyObject(session, secret));
                assert_eq!(again, c::CKR_OBJECT_HANDLE_INVALID);
            }
            let half = module.derive(session, public, point, &mut []);
            assert_eq!(half, Err(c::CKR_KEY_FUNCTION_NOT_PERMITTED));
            for wrong in [&point[1..], &[4; 65], &[0; 300], &[]] {
                assert!(module.derive(session, private, wrong, &mut []).is_err(), "{name}");
            }
        }
        let [rsa, _] = module.halves(session, "rsa");
        assert_eq!(module.derive(session, rsa, &[4; 65], &mut []), Err(c::CKR_KEY_TYPE_INCONSISTENT));
        // Secrets end with their session.
        let other = module.open().unwrap();
        let [private, _] = module.halves(session, "exchange");
        let secret = module.derive(other, private, &[9; 32], &mut []).unwrap();
        assert_eq!(module.value(session, secret, c::CKA_VALUE_LEN).unwrap(), 32u64.to_ne_bytes());
        assert_eq!(call!(module, C_CloseSession(other)), c::CKR_OK);
        assert_eq!(call!(module, C_DestroyObject(session, secret)), c::CKR_OBJECT_HANDLE_INVALID);
        let class = c::CKO_SECRET_KEY;
        assert!(module.find(session, &mut [attribute(c::CKA_CLASS, &class)]).is_empty());
    });
}

#[test]
fn keys_are_made_for_those_who_may_manage_keys() {
    alone("making::keys_are_made_for_those_who_may_manage_keys", |folder| {
        let engine = engine(folder);
        let module = Module::initialized();
        let mut session = 0;
        let flags = c::CKF_SERIAL_SESSION | c::CKF_RW_SESSION;
        assert_eq!(call!(module, C_OpenSession(0, flags, null_mut(), None, &mut session)), c::CKR_OK);
        let p384 = [6u8, 5, 0x2b, 0x81, 4, 0, 0x22];
        let bits: c::CK_ULONG = 2048;
        let curve = attribute(c::CKA_EC_PARAMS, &p384);
        let modulus = attribute(c::CKA_MODULUS_BITS, &bits);
        for (kind, name, public) in
            [(c::CKM_EC_KEY_PAIR_GEN, "made-ec", curve), (c::CKM_RSA_PKCS_KEY_PAIR_GEN, "made-rsa", modulus)]
        {
            let [public, private] = module.generate(session, kind, public, name).unwrap();
            assert_eq!([private, public], module.halves(session, name));
            let how =
                if kind == c::CKM_EC_KEY_PAIR_GEN { c::CKM_ECDSA_SHA256 } else { c::CKM_SHA256_RSA_PKCS };
            let signature = module.sign(session, mechanism(how), private, b"text").unwrap();
            assert_eq!(module.verify(session, mechanism(how), public, [b"text", &signature]), c::CKR_OK);
            let again = module.generate(session, kind, modulus, name);
            assert!(again.is_err(), "{name} is there already");
        }
        let reading = module.open().unwrap();
        let refused = module.generate(reading, c::CKM_EC_KEY_PAIR_GEN, curve, "more");
        assert_eq!(refused, Err(c::CKR_SESSION_READ_ONLY));
        // The policy decides.
        engine.change_policy(&format!(
            "[[allow]]\nusers = [{}]\nkeys = ['*']\nuses = ['sign']\n",
            common::user()
        ));
        let start = std::time::Instant::now();
        while module.generate(session, c::CKM_EC_KEY_PAIR_GEN, curve, "more") != Err(c::CKR_FUNCTION_REJECTED)
        {
            assert!(start.elapsed().as_secs() < 30, "the policy has changed");
            let _ = engine_remove(&engine);
        }
        let [private, _] = module.halves(session, "ec");
        let refused = module.derive(session, private, &[4; 65], &mut []);
        assert_eq!(refused, Err(c::CKR_KEY_FUNCTION_NOT_PERMITTED));
    });
}

/// Removes a key that was made before the policy changed.
fn engine_remove(engine: &Engine) -> Result<(), sealane_client::ClientError> {
    engine.client().remove("more")
}

#[test]
fn kinds_of_keys_are_hidden_from_programs_that_stumble_over_them() {
    with_session(
        "making::kinds_of_keys_are_hidden_from_programs_that_stumble_over_them",
        |_, module, session| {
            assert_eq!(module.find(session, &mut []).len(), 2 * (KEYS.len() + 1));
            // SAFETY: this process has no other thread that reads its environment: the service's threads do not.
            unsafe { env::set_var("SEALANE_PKCS11_HIDE", "ed25519, x25519,nonsense") };
            assert_eq!(module.find(session, &mut []).len(), 2 * (KEYS.len() - 1));
        },
    );
}

impl Module {
    fn derive(
        &self,
        session: c::CK_SESSION_HANDLE,
        key: c::CK_OBJECT_HANDLE,
        peer: &[u8],
        template: &mut [c::CK_ATTRIBUTE],
    ) -> Result<c::CK_OBJECT_HANDLE, c::CK_RV> {
        let mut parameters = c::CK_ECDH1_DERIVE_PARAMS {
            kdf: c::CKD_NULL,
            ulSharedDataLen: 0,
            pSharedData: null_mut(),
            ulPublicDataLen: length(peer),
            pPublicData: peer.as_ptr().cast_mut(),
        };
        let mut how = c::CK_MECHANISM {
            mechanism: c::CKM_ECDH1_DERIVE,
            pParameter: (&raw mut parameters).cast(),
            ulParameterLen: size_of_val(&parameters) as c::CK_ULONG,
        };
        let (mut made, count) = (0, template.len() as c::CK_ULONG);
        let returned =
            call!(self, C_DeriveKey(session, &mut how, key, template.as_mut_ptr(), count, &mut made));
        outcome(returned, made)
    }

    /// Makes a pair; returns its public and its private half.
    pub(super) fn generate(
        &self,
        session: c::CK_SESSION_HANDLE,
        kind: c::CK_MECHANISM_TYPE,
        mut public: c::CK_ATTRIBUTE,
        name: &str,
    ) -> Result<[c::CK_OBJECT_HANDLE; 2], c::CK_RV> {
        let mut private = c::CK_ATTRIBUTE {
            type_: c::CKA_LABEL,
            pValue: name.as_ptr().cast_mut().cast(),
            ulValueLen: length(name.as_bytes()),
        };
        let (mut how, mut halves) = (mechanism(kind), [0; 2]);
        let [made_public, made_private] = &mut halves;
        let returned = call!(
            self,
            C_GenerateKeyPair(session, &mut how, &mut public, 1, &mut private, 1, made_public, made_private)
        );
        outcome(returned, halves)
    }
}
