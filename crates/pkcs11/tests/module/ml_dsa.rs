//! ML-DSA as PKCS#11 3.2 has it: pairs by parameter set, contexts, and hedged or deterministic signatures.

use super::*;
use sealane_client::MlDsaSet;

/// Returns the mechanism with its parameters.
fn with(parameters: &mut c::CK_SIGN_ADDITIONAL_CONTEXT) -> c::CK_MECHANISM {
    c::CK_MECHANISM {
        mechanism: c::CKM_ML_DSA,
        pParameter: (&raw mut *parameters).cast(),
        ulParameterLen: size_of::<c::CK_SIGN_ADDITIONAL_CONTEXT>() as c::CK_ULONG,
    }
}

fn parameters(hedge: c::CK_HEDGE_TYPE, context: &[u8]) -> c::CK_SIGN_ADDITIONAL_CONTEXT {
    c::CK_SIGN_ADDITIONAL_CONTEXT {
        hedgeVariant: hedge,
        pContext: context.as_ptr().cast_mut(),
        ulContextLen: length(context),
    }
}

#[test]
fn pairs_sign_in_contexts() {
    alone("ml_dsa::pairs_sign_in_contexts", |folder| {
        let engine = engine(folder);
        let module = Module::initialized();
        let mut session = 0;
        let flags = c::CKF_SERIAL_SESSION | c::CKF_RW_SESSION;
        assert_eq!(call!(module, C_OpenSession(0, flags, null_mut(), None, &mut session)), c::CKR_OK);
        let sets = [c::CKP_ML_DSA_44, c::CKP_ML_DSA_65, c::CKP_ML_DSA_87];
        for (number, set) in sets.into_iter().zip(MlDsaSet::ALL) {
            let name = format!("made-{number}");
            let wanted = attribute(c::CKA_PARAMETER_SET, &number);
            let [own, private] = module.generate(session, c::CKM_ML_DSA_KEY_PAIR_GEN, wanted, &name).unwrap();
            assert_eq!([private, own], module.halves(session, &name));
            let value = |object, kind| module.value(session, object, kind);
            for half in [own, private] {
                assert_eq!(value(half, c::CKA_KEY_TYPE).unwrap(), c::CKK_ML_DSA.to_ne_bytes());
                assert_eq!(value(half, c::CKA_PARAMETER_SET).unwrap(), number.to_ne_bytes());
                assert_eq!(value(half, c::CKA_ALLOWED_MECHANISMS).unwrap(), c::CKM_ML_DSA.to_ne_bytes());
            }
            let raw = value(own, c::CKA_VALUE).unwrap();
            let info = engine.client().open(&name).unwrap().info;
            assert_eq!((raw.len(), info.public.ends_with(&raw)), (set.public_bytes(), true));
            for secret in [c::CKA_VALUE, c::CKA_SEED] {
                assert_eq!(value(private, secret), Err(c::CKR_ATTRIBUTE_SENSITIVE));
            }
            let public = public(&engine, &name);
            for (hedge, context) in [
                (c::CKH_HEDGE_PREFERRED, &b""[..]),
                (c::CKH_HEDGE_REQUIRED, b"a context"),
                (c::CKH_DETERMINISTIC_REQUIRED, &[7; 255]),
            ] {
                let mut given = parameters(hedge, context);
                let sign = |given: &mut _| module.sign(session, with(given), private, b"text").unwrap();
                let signature = sign(&mut given);
                let is_deterministic = hedge == c::CKH_DETERMINISTIC_REQUIRED;
                assert_eq!(sign(&mut given) == signature, is_deterministic, "{hedge}");
                let mu = public.representative(context, b"text").unwrap();
                assert!(public.verifies(Verification::MlDsa, &mu, &signature), "{hedge}");
                let verify =
                    |given: &mut _, text: &[u8]| module.verify(session, with(given), own, [text, &signature]);
                assert_eq!(verify(&mut given, b"text"), c::CKR_OK);
                assert_eq!(verify(&mut given, b"test"), c::CKR_SIGNATURE_INVALID);
                assert_eq!(verify(&mut parameters(hedge, b"another"), b"text"), c::CKR_SIGNATURE_INVALID);
                let short = module.verify(session, with(&mut given), own, [b"text", &signature[1..]]);
                assert_eq!(short, c::CKR_SIGNATURE_LEN_RANGE);
            }
            let plain = module.sign(session, mechanism(c::CKM_ML_DSA), private, b"text").unwrap();
            assert_eq!(module.verify(session, mechanism(c::CKM_ML_DSA), own, [b"text", &plain]), c::CKR_OK);
            for mut wrong in [parameters(3, b""), parameters(c::CKH_HEDGE_PREFERRED, &[0; 256])] {
                let refused = module.sign(session, with(&mut wrong), private, b"text");
                assert_eq!(refused, Err(c::CKR_MECHANISM_PARAM_INVALID));
            }
            let ecdsa = module.sign(session, mechanism(c::CKM_ECDSA), private, &[7; 32]);
            assert_eq!(ecdsa, Err(c::CKR_KEY_TYPE_INCONSISTENT));
        }
        let none: c::CK_ULONG = 4;
        let refused = module.generate(
            session,
            c::CKM_ML_DSA_KEY_PAIR_GEN,
            attribute(c::CKA_PARAMETER_SET, &none),
            "none",
        );
        assert_eq!(refused, Err(c::CKR_ATTRIBUTE_VALUE_INVALID));
    });
}
