//! Vectors of NIST's ACVP server for the RSA signature primitive (RSA-SignaturePrimitive-2.0, group 1, tests
//! 1 and 2); in the second, p is the smaller prime. The parts of d and 1 / q follow from the numbers that the
//! server gives.

use hex_literal::hex;

/// A key of 2048 bits with the exponent 65537, a message and its signature, big-endian.
pub(super) struct Vector {
    pub(super) n: &'static [u8],
    pub(super) p: &'static [u8],
    pub(super) q: &'static [u8],
    pub(super) dp: &'static [u8],
    pub(super) dq: &'static [u8],
    pub(super) qinv: &'static [u8],
    pub(super) message: &'static [u8],
    pub(super) signature: &'static [u8],
}

pub(super) const VECTORS: [Vector; 2] = [
    Vector {
        n: &hex!(
            "997adbae662e3f464a22ef2f074152d3de7fbe9f22930e57ae2042bb737b1600942abbce83fef730f4c222333dced39a"
            "f8f5e39f4f7925cda1bfb317e2e24b25b9c8c43b6f04122ede780caba7c9e3215e99bec6c8742363df364928202fbfaa"
            "5d9bdfc68de73425dbc3100909e5a46f740480e73084bee3a83798f6ebb56ffb11f313f161c28b317add4bc704a819ce"
            "9ce54d2aa3a732cedafb1ca850e7a4c6fa007462f88ca8ffb7d77a33baf7e31254e806d2c43acd8307c62a0e6bcfc464"
            "b85401b395a742bb7d5524b5c0b483fc4b563545515272d821056ccdd1f300f22d472b29924dafc8f935ce37228d6e60"
            "916c6f337ac17cb6ccda426963c9b831"
        ),
        p: &hex!(
            "d254f6c56046e6f62199cc639c8df0843253fef3bf9770e3eacb8a2777cc0746cebc39c0fba7575565aeeb160b7ddbe9"
            "fb8734a731b5ce0c15f26cb89b4ca40dafd8e07876ec0c67fb2fa98da385d5578325741bd9b71eae35b0ac070e53850f"
            "3b8f9ce1d55f0e6fa30e5f506403bcc1f97b0b215be09c4cbab5d8855baf755b"
        ),
        q: &hex!(
            "bacdd912b2f21646613fdba5bacfea461cc9cd2c67c72e420a9153c98644bdf2d094df39740924713474093440fa5eab"
            "e6430a34b3e11a99074e1cd7634bba6b741b9f197bd18a27fd800d816135902669b61441af310e70ad5a0bfe3122f242"
            "f66a6ad120c862fa85ba65c152c7f3124d4df9558eb1d6deedc0e1ddcb0fe263"
        ),
        dp: &hex!(
            "c02aba6fa8bffee29fde69bc14dc2604520b2623c34774eff7a4512c302aabf74888f667584512e8c6076367f7c5dcf7"
            "d1443d9a0833e7f668d2ddfc687f445ff0eac063af9b88d633cbdf28b65f5f851e20490ded037eb781fc519ffcb9d817"
            "0bbef181efb5727612ceddcc90244e001795109d40d95d54493e3d7dd23fe383"
        ),
        dq: &hex!(
            "a8fa5a192b1c0800442a32b3790868c0617c3e87a39cae8078f4bb1939c6e718458bd55d3054b0cd62887066ff3c3bf5"
            "3d86792df16577dce399ca47200039b2c7c5d0a689b5a346c76e55492ab8fc1b73568c7e5a4e82e4743b574bea00d5aa"
            "b322d25b384f6c11787483655c4f98d67e6d41551e8e4a7340185178831e6c47"
        ),
        qinv: &hex!(
            "90f9b9deda8b26d7a21c3f8a55001cf6704fd5741e61a00d415b4da221dcbb4cf29e7b77ae8cacc9600eb362c67a5936"
            "f87057af532a0a0abf4ce69c2194a974eec55b3afe27d8d0105e1d6f665bb3463cf9dcb55b0e28908753d381a7170828"
            "cd7fd86617ecc4cb1bf5194c50889ab5c3aa075ca0e0e5a0cc7dbdd84dfca6df"
        ),
        message: &hex!(
            "3e44a430d3155325601f5c995782b005902383abe5c1f03c346189cf60478755704db32acc5c522648c354c68eee279f"
            "889f9a1459c1cef16f708d253c9ce9b5e6eb887f2239a42b37dc6db3b35fadc187c66c49fd6e41f8ccd66370888903b6"
            "7707263cafae65f4e997829aba9ac7d2e115af3f5260bc0c27372d882e8dc2b976274d7b328ed73605beaaba7b6830f9"
            "5e91fd4a437addc48259ca87e56bb39351fd03ea942664df60f3ba30253f66f2bf12f4e12014b77912e2a1966d372ac0"
            "efd0f9e15bef0c52731e5ffaf4f0a724f038be0f2ca2634bde5edaa179d7fdbfeeae20cc63562a7d222084845f95d8ed"
            "831a6e6bf6186f0f9c5d37856d2f73f7"
        ),
        signature: &hex!(
            "47ae2d616dd3bb87c8541bfd459731e47e33f0f213f153957c977ab1f9eaf7569e68154d01b58438b590a4efdf2ae1d1"
            "c09cd9af12313978330410388badd976455e395530b2c898b7efd02c9dffd8345aef234a35ed874a72d458b402a0607d"
            "91921594f868e14f1d58f337588368e24cc82832e8a1cd4cfb5a248e81cc79355f659b8dd94a855ab41b054c12dce1f9"
            "45212c0c84ac826f68123fd67d470b3b4d08460d6211f7f4f9d287c0ae9f4e124cf4dcf83a7104b10d864c18398482ee"
            "dd19c81a8c27a2182d14ee2bdddd244174ea38e82bbbe89b5de56130a9da50d0f1cc15d1eaab738256ddb8e0da33fe1d"
            "a9e8c6e2ba7e764620eae605eab587dc"
        ),
    },
    Vector {
        n: &hex!(
            "ccd4b8bc918ecd78c62ce41cdfb26521cb83efda18386b4b475e5e71c1db5774383de3afa534f3528d71e7927c77390d"
            "eff4182a225cff08cc4d49fe712237da810786d6e1efa38746478c45c0234dd596403e30eab31fb6a187b72fc30a0746"
            "147581c1d23fc2e608ed61461927c6b1247a4177dec3ad778e27427635e41fd147744353aa8b25555f5dd5a1b2c793ca"
            "3fd295782b7929abc36cb984e0ea5ea9470fb509e371bc22d1afb325bf4d419f93ee457057808c667fbceae8da62a0cc"
            "a818a9a0baba6ee5ff47583731cdf40c89856269a32bbd4e8f2ef08ab673ec0145d87a2b1fe7ea75799752235943bac1"
            "68932a2b539a25df4aa4509b4623e01d"
        ),
        p: &hex!(
            "e2f1f8d2ea3512d11e26b57e17d6d892f3d4df1c9a17eb0598ada28d36e7524a1eed02f73d7a2a612fdfd5bb55a277a3"
            "965fa186268528e4e8364c149641b0f4e20a218e796ff1945a05a2c2fcd43be5c239cfe7db3554407b7c672f0f8566d2"
            "a2d190918739dc66477cbb7ac5a36050655b99fd1453c5729ba9c756d6381117"
        ),
        q: &hex!(
            "e70df6f3c2d61517d400a70474e0f38c776f6f158d4833c10fcd9f2a0fd341370efec8d8910e786f3d409b932fef9975"
            "283f4ad2f47d41b0e687013b4553576f93d6f30d551cccc2426392cff81a491108e57e6743d50e020c1df45dd0bad3d0"
            "1093ad7800a15aa6a78ea8027f4dcddbe5d2f619236703414ff4afb0c27350eb"
        ),
        dp: &hex!(
            "6bea9c63cf3345ab63270d0ed4cf395547d565f2f7e37fc2bd8373d4aad2fcf27a1a425ac7451c79f28601e07f2c2eaf"
            "ff85a20d64abd5726469cd6bccb7982a1a82aeca4d3cca27bd5708baa7f754344153b465907b9f80ba37c1e942fc3094"
            "e10fbe2b359e720bc0dab35c02375a4960a95a645a122bc5fff78feedf16f229"
        ),
        dq: &hex!(
            "6b067fee97c07c92c603eb59581e5f1220bcc052d657ac89701d89ed7cd9192b3cc9ee14cad44e1b10df5d7107524fde"
            "01df97743205d728ef0f7815915e32711fa5007e9b7f34a58305069b48cc3c2e24d5d1005a5e5517c3af1863606d39f1"
            "f5cbc21d850538ad5b8debeb0436f0f53bf6c5420db108c3f71a5b4b6036f433"
        ),
        qinv: &hex!(
            "d82fcdcbdb207be5ef9a69a141bc8ac863b9f1ebd49d1b532e97ab2b38019a35d718867e759a27b1f0a4b43f1860fd89"
            "9b282b78f1d37290f61e99e4ea49df1cb69f66dd988ff1aa44dc37b9c540b63b4c5b3b12d2a8a686f49946c157d81e9e"
            "da0f3fedb322876eb5d731b41b2942e0e1c428772f3a4aba03f3ee1524a26788"
        ),
        message: &hex!(
            "b31ad1cade661a1148546c7d788ce87cc39718f1c61b4c6ce7a7e15bc34ad6e85fa47fdf1351cadaf1f145b69fd19065"
            "9a94dabd61912532f9e51ba9410c038d0b0c4f09f183119d557983eb4d465202502267c6d8e1f4afad706325ef1f5475"
            "dc92fdf1d4e188025bb39f5540d2a35d0a0ac99581df2008fe23ea7a866c51f4cfc3bdf0a45d0d19b8e9a6f8eaf3d298"
            "ebe992401423389a83a14fe1fa41eb01ac8948126a8e479d4bddb9ba7aa4aa4d05e5bb716efd7e18d6287febfa59f771"
            "a3209c9440d77da75b003d923c0fc3038d493af2b38e21481d89eae835a29d8970f6c93da737973fd76eff90469ca2c1"
            "11b58d97e267686c5d44cbd71755155b"
        ),
        signature: &hex!(
            "06c0ac00c95db42e31851746b09bd4bb4fa0c7396e18c5dd92a0cdb02c87cab21ebd0bf81cc61f85d230dcecef5812a5"
            "ad9c799749ec0f85c5861ab20d6da3788fa2598d1e3ea183a01e2584b365183bc0611f98731ad9c765a5c0b3d3046ef2"
            "3f3b9895fdeb3c159d243c51935d8596632bc1245b63acd289d7027c097279a01f914b403b781f9a5e0e8f9e6692b1b4"
            "39b94ce7ab97d9016bee00ffdc4bd65a0604aef53212ef5cd73cf04356a539915fd39f8f9733ee179a8e181cfdbe6d47"
            "1e1b835a76025973219c19dc85f43fc0712ec72a02681e492e107f11182ed21992dd38d40bed80fef00c2afece87f8e5"
            "cb8d3538307fc543436cd89571ace735"
        ),
    },
];
