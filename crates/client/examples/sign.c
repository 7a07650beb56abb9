/* Signs 32 bytes, the digest of a text by SHA-256, with a key that stays in the engine:
 *
 *     cc -o sign -I crates/client/include crates/client/examples/sign.c
 *     ./sign SOCKET KEY RSA|ECDSA|ED25519 <DIGEST >SIGNATURE
 */
#include "sealane_engine.h"
#include <stdio.h>

int main(int count, char **words) {
    struct sealane_engine engine;
    unsigned char digest[32], signature[1024];
    uint32_t key;
    if (count != 4 || fread(digest, 1, sizeof digest, stdin) != sizeof digest)
        return 2;
    int outcome = sealane_connect(&engine, words[1], "example sign.c");
    if (outcome == 0)
        outcome = sealane_open(&engine, words[2], &key);
    if (outcome != 0) {
        fprintf(stderr, "cannot open the key: %d\n", outcome);
        return 1;
    }
    uint32_t operation = words[3][0] == 'R'   ? SEALANE_SIGN_PKCS1
                         : words[3][1] == 'C' ? SEALANE_SIGN_ECDSA
                                              : SEALANE_SIGN_ED25519;
    uint32_t hash = operation == SEALANE_SIGN_PKCS1 ? SEALANE_SHA256 : 0;
    /* A long content goes around the ring and comes back unchanged. */
    static unsigned char text[60000], back[60000];
    for (size_t at = 0; at < sizeof text; at++)
        text[at] = (unsigned char)(at * 7 >> 3);
    for (int round = 0; round < 20; round++) {
        size_t length = (size_t)round * 3000;
        long got = sealane_call(&engine, 0, SEALANE_NULL, 0, text, length, back, sizeof back);
        if (got != (long)length || memcmp(text, back, length) != 0) {
            fprintf(stderr, "the null job of %zu bytes gave %ld\n", length, got);
            return 1;
        }
    }
    long length = sealane_call(&engine, key, operation, hash, digest, sizeof digest, signature, sizeof signature);
    sealane_close(&engine);
    if (length < 0) {
        fprintf(stderr, "cannot sign: %ld\n", length);
        return 1;
    }
    return fwrite(signature, 1, (size_t)length, stdout) == (size_t)length ? 0 : 1;
}
