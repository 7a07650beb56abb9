//! The first bytes of a TLS connection: any bytes have a share or none, a share that is found stands in them, and
//! nothing is allocated.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::within;
use sealane_peer::client_share;

fuzz_target!(|flight: &[u8]| {
    if let Some(share) = within(0, || client_share(flight)) {
        assert!(flight.windows(share.len()).any(|window| window == share));
        // A longer flight has the same share; a shorter one does not have the whole message.
        let longer = [flight, &[22]].concat();
        assert_eq!(client_share(&longer), Some(share));
    }
});
