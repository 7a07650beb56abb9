/*
 * The kernels of NPCryptBench's ten algorithms at level 0: as their papers write them, loops not unrolled, tables where
 * they are given. Keys are expanded and tables filled before; each takes its expanded key, its tables, a message of whole
 * blocks, and eight words of state. The words are laid out as `Prepared` in our transforms' crate says.
 *
 * What belongs to a kernel has its name before an underscore, so that its code can be summed up from symbols.
 */
#include <stdint.h>

#define ROTL(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define ROTL_BY(x, n) (((x) << ((n) & 31)) | ((x) >> ((32 - ((n) & 31)) & 31)))
#define LITTLE(p) ((uint32_t)(p)[0] | (uint32_t)(p)[1] << 8 | (uint32_t)(p)[2] << 16 | (uint32_t)(p)[3] << 24)
#define BIG(p) ((uint32_t)(p)[3] | (uint32_t)(p)[2] << 8 | (uint32_t)(p)[1] << 16 | (uint32_t)(p)[0] << 24)
#define PUT_LITTLE(p, x) \
    ((p)[0] = (uint8_t)(x), (p)[1] = (uint8_t)((x) >> 8), (p)[2] = (uint8_t)((x) >> 16), (p)[3] = (uint8_t)((x) >> 24))
#define PUT_BIG(p, x) \
    ((p)[3] = (uint8_t)(x), (p)[2] = (uint8_t)((x) >> 8), (p)[1] = (uint8_t)((x) >> 16), (p)[0] = (uint8_t)((x) >> 24))
#define KERNEL(name) \
    void name(const uint32_t *key, uint32_t *tables, uint8_t *message, uint32_t bytes, uint32_t *state)
#define UNUSED(x) ((void)(x))

/* RFC 1321, section 3.4, and its appendix's form. */
#define MD5_F(x, y, z) (((x) & (y)) | (~(x) & (z)))
#define MD5_G(x, y, z) (((x) & (z)) | ((y) & ~(z)))
#define MD5_H(x, y, z) ((x) ^ (y) ^ (z))
#define MD5_I(x, y, z) ((y) ^ ((x) | ~(z)))
#define MD5_STEP(f, a, b, c, d, k, s, sine) \
    (a += f(b, c, d) + x[k] + UINT32_C(sine), a = ROTL(a, s), a += b)

KERNEL(md5) {
    uint32_t at;
    UNUSED(key), UNUSED(tables);
    for (at = 0; at < bytes; at += 64) {
        uint32_t x[16], i, a = state[0], b = state[1], c = state[2], d = state[3];
        for (i = 0; i < 16; i++)
            x[i] = LITTLE(message + at + 4 * i);
        MD5_STEP(MD5_F, a, b, c, d, 0, 7, 0xd76aa478);
        MD5_STEP(MD5_F, d, a, b, c, 1, 12, 0xe8c7b756);
        MD5_STEP(MD5_F, c, d, a, b, 2, 17, 0x242070db);
        MD5_STEP(MD5_F, b, c, d, a, 3, 22, 0xc1bdceee);
        MD5_STEP(MD5_F, a, b, c, d, 4, 7, 0xf57c0faf);
        MD5_STEP(MD5_F, d, a, b, c, 5, 12, 0x4787c62a);
        MD5_STEP(MD5_F, c, d, a, b, 6, 17, 0xa8304613);
        MD5_STEP(MD5_F, b, c, d, a, 7, 22, 0xfd469501);
        MD5_STEP(MD5_F, a, b, c, d, 8, 7, 0x698098d8);
        MD5_STEP(MD5_F, d, a, b, c, 9, 12, 0x8b44f7af);
        MD5_STEP(MD5_F, c, d, a, b, 10, 17, 0xffff5bb1);
        MD5_STEP(MD5_F, b, c, d, a, 11, 22, 0x895cd7be);
        MD5_STEP(MD5_F, a, b, c, d, 12, 7, 0x6b901122);
        MD5_STEP(MD5_F, d, a, b, c, 13, 12, 0xfd987193);
        MD5_STEP(MD5_F, c, d, a, b, 14, 17, 0xa679438e);
        MD5_STEP(MD5_F, b, c, d, a, 15, 22, 0x49b40821);
        MD5_STEP(MD5_G, a, b, c, d, 1, 5, 0xf61e2562);
        MD5_STEP(MD5_G, d, a, b, c, 6, 9, 0xc040b340);
        MD5_STEP(MD5_G, c, d, a, b, 11, 14, 0x265e5a51);
        MD5_STEP(MD5_G, b, c, d, a, 0, 20, 0xe9b6c7aa);
        MD5_STEP(MD5_G, a, b, c, d, 5, 5, 0xd62f105d);
        MD5_STEP(MD5_G, d, a, b, c, 10, 9, 0x02441453);
        MD5_STEP(MD5_G, c, d, a, b, 15, 14, 0xd8a1e681);
        MD5_STEP(MD5_G, b, c, d, a, 4, 20, 0xe7d3fbc8);
        MD5_STEP(MD5_G, a, b, c, d, 9, 5, 0x21e1cde6);
        MD5_STEP(MD5_G, d, a, b, c, 14, 9, 0xc33707d6);
        MD5_STEP(MD5_G, c, d, a, b, 3, 14, 0xf4d50d87);
        MD5_STEP(MD5_G, b, c, d, a, 8, 20, 0x455a14ed);
        MD5_STEP(MD5_G, a, b, c, d, 13, 5, 0xa9e3e905);
        MD5_STEP(MD5_G, d, a, b, c, 2, 9, 0xfcefa3f8);
        MD5_STEP(MD5_G, c, d, a, b, 7, 14, 0x676f02d9);
        MD5_STEP(MD5_G, b, c, d, a, 12, 20, 0x8d2a4c8a);
        MD5_STEP(MD5_H, a, b, c, d, 5, 4, 0xfffa3942);
        MD5_STEP(MD5_H, d, a, b, c, 8, 11, 0x8771f681);
        MD5_STEP(MD5_H, c, d, a, b, 11, 16, 0x6d9d6122);
        MD5_STEP(MD5_H, b, c, d, a, 14, 23, 0xfde5380c);
        MD5_STEP(MD5_H, a, b, c, d, 1, 4, 0xa4beea44);
        MD5_STEP(MD5_H, d, a, b, c, 4, 11, 0x4bdecfa9);
        MD5_STEP(MD5_H, c, d, a, b, 7, 16, 0xf6bb4b60);
        MD5_STEP(MD5_H, b, c, d, a, 10, 23, 0xbebfbc70);
        MD5_STEP(MD5_H, a, b, c, d, 13, 4, 0x289b7ec6);
        MD5_STEP(MD5_H, d, a, b, c, 0, 11, 0xeaa127fa);
        MD5_STEP(MD5_H, c, d, a, b, 3, 16, 0xd4ef3085);
        MD5_STEP(MD5_H, b, c, d, a, 6, 23, 0x04881d05);
        MD5_STEP(MD5_H, a, b, c, d, 9, 4, 0xd9d4d039);
        MD5_STEP(MD5_H, d, a, b, c, 12, 11, 0xe6db99e5);
        MD5_STEP(MD5_H, c, d, a, b, 15, 16, 0x1fa27cf8);
        MD5_STEP(MD5_H, b, c, d, a, 2, 23, 0xc4ac5665);
        MD5_STEP(MD5_I, a, b, c, d, 0, 6, 0xf4292244);
        MD5_STEP(MD5_I, d, a, b, c, 7, 10, 0x432aff97);
        MD5_STEP(MD5_I, c, d, a, b, 14, 15, 0xab9423a7);
        MD5_STEP(MD5_I, b, c, d, a, 5, 21, 0xfc93a039);
        MD5_STEP(MD5_I, a, b, c, d, 12, 6, 0x655b59c3);
        MD5_STEP(MD5_I, d, a, b, c, 3, 10, 0x8f0ccc92);
        MD5_STEP(MD5_I, c, d, a, b, 10, 15, 0xffeff47d);
        MD5_STEP(MD5_I, b, c, d, a, 1, 21, 0x85845dd1);
        MD5_STEP(MD5_I, a, b, c, d, 8, 6, 0x6fa87e4f);
        MD5_STEP(MD5_I, d, a, b, c, 15, 10, 0xfe2ce6e0);
        MD5_STEP(MD5_I, c, d, a, b, 6, 15, 0xa3014314);
        MD5_STEP(MD5_I, b, c, d, a, 13, 21, 0x4e0811a1);
        MD5_STEP(MD5_I, a, b, c, d, 4, 6, 0xf7537e82);
        MD5_STEP(MD5_I, d, a, b, c, 11, 10, 0xbd3af235);
        MD5_STEP(MD5_I, c, d, a, b, 2, 15, 0x2ad7d2bb);
        MD5_STEP(MD5_I, b, c, d, a, 9, 21, 0xeb86d391);
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
    }
}

/* FIPS 180-4, section 6.1.2. */
KERNEL(sha1) {
    uint32_t at;
    UNUSED(key), UNUSED(tables);
    for (at = 0; at < bytes; at += 64) {
        uint32_t w[80], t, a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], next;
        for (t = 0; t < 16; t++)
            w[t] = BIG(message + at + 4 * t);
        for (t = 16; t < 80; t++)
            w[t] = ROTL(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
        for (t = 0; t < 20; t++) {
            next = ROTL(a, 5) + ((b & c) | (~b & d)) + e + UINT32_C(0x5a827999) + w[t];
            e = d, d = c, c = ROTL(b, 30), b = a, a = next;
        }
        for (t = 20; t < 40; t++) {
            next = ROTL(a, 5) + (b ^ c ^ d) + e + UINT32_C(0x6ed9eba1) + w[t];
            e = d, d = c, c = ROTL(b, 30), b = a, a = next;
        }
        for (t = 40; t < 60; t++) {
            next = ROTL(a, 5) + ((b & c) | (b & d) | (c & d)) + e + UINT32_C(0x8f1bbcdc) + w[t];
            e = d, d = c, c = ROTL(b, 30), b = a, a = next;
        }
        for (t = 60; t < 80; t++) {
            next = ROTL(a, 5) + (b ^ c ^ d) + e + UINT32_C(0xca62c1d6) + w[t];
            e = d, d = c, c = ROTL(b, 30), b = a, a = next;
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
    }
}

/* The permutation is left as the message leaves it. */
KERNEL(rc4) {
    uint32_t at, i = 0, j = 0, a, b;
    UNUSED(key), UNUSED(state);
    for (at = 0; at < bytes; at++) {
        i = (i + 1) & 0xff;
        a = tables[i];
        j = (j + a) & 0xff;
        b = tables[j];
        tables[i] = b;
        tables[j] = a;
        message[at] ^= (uint8_t)tables[(a + b) & 0xff];
    }
}

/* SEAL 3.0, index 1. */
#define SEAL_T(x) tables[(x) >> 2]
#define SEAL_LOW(x) ((x) & 0x7fc)
#define SEAL_RIGHT9(x) ROTL(x, 23)
#define SEAL_TURN(x, y) (p = SEAL_LOW(x), y += SEAL_T(p), x = SEAL_RIGHT9(x))

KERNEL(seal3) {
    const uint32_t *s = tables + 512, *r = tables + 768;
    uint32_t at, i, p, q, n = 1;
    UNUSED(key), UNUSED(state);
    for (at = 0; at < bytes; at += 1024, r += 4) {
        uint32_t a = n ^ r[0], b = ROTL(n, 24) ^ r[1], c = ROTL(n, 16) ^ r[2], d = ROTL(n, 8) ^ r[3];
        uint32_t n1 = 0, n2 = 0, n3 = 0, n4 = 0, turn;
        for (turn = 0; turn < 3; turn++) {
            SEAL_TURN(a, b), SEAL_TURN(b, c), SEAL_TURN(c, d), SEAL_TURN(d, a);
            if (turn == 1)
                n1 = d, n2 = b, n3 = a, n4 = c;
        }
        for (i = 0; i < 64 && at + 16 * i < bytes; i++) {
            uint8_t *out = message + at + 16 * i;
            p = SEAL_LOW(a), a = SEAL_RIGHT9(a), b = (b + SEAL_T(p)) ^ a;
            q = SEAL_LOW(b), b = SEAL_RIGHT9(b), c = (c ^ SEAL_T(q)) + b;
            p = SEAL_LOW(p + c), c = SEAL_RIGHT9(c), d = (d + SEAL_T(p)) ^ c;
            q = SEAL_LOW(q + d), d = SEAL_RIGHT9(d), a = (a ^ SEAL_T(q)) + d;
            p = SEAL_LOW(p + a), b ^= SEAL_T(p), a = SEAL_RIGHT9(a);
            q = SEAL_LOW(q + b), c += SEAL_T(q), b = SEAL_RIGHT9(b);
            p = SEAL_LOW(p + c), d ^= SEAL_T(p), c = SEAL_RIGHT9(c);
            q = SEAL_LOW(q + d), d = SEAL_RIGHT9(d), a += SEAL_T(q);
            p = BIG(out) ^ (b + s[4 * i]);
            PUT_BIG(out, p);
            p = BIG(out + 4) ^ (c ^ s[4 * i + 1]);
            PUT_BIG(out + 4, p);
            p = BIG(out + 8) ^ (d + s[4 * i + 2]);
            PUT_BIG(out + 8, p);
            p = BIG(out + 12) ^ (a ^ s[4 * i + 3]);
            PUT_BIG(out + 12, p);
            if (i % 2 == 0)
                a += n1, b += n2, c ^= n1, d ^= n2;
            else
                a += n3, b += n4, c ^= n3, d ^= n4;
        }
    }
}

/* AES-128 with four tables of 256 words, and the S-box as a fifth for the last round. */
#define AES_COLUMN(i) \
    (tables[x[i] & 0xff] ^ tables[256 + (x[((i) + 1) % 4] >> 8 & 0xff)] ^ \
     tables[512 + (x[((i) + 2) % 4] >> 16 & 0xff)] ^ tables[768 + (x[((i) + 3) % 4] >> 24)])
#define AES_LAST(i) \
    (tables[1024 + (x[i] & 0xff)] | tables[1024 + (x[((i) + 1) % 4] >> 8 & 0xff)] << 8 | \
     tables[1024 + (x[((i) + 2) % 4] >> 16 & 0xff)] << 16 | tables[1024 + (x[((i) + 3) % 4] >> 24)] << 24)

KERNEL(aes) {
    uint32_t at, round, i;
    UNUSED(state);
    for (at = 0; at < bytes; at += 16) {
        uint8_t *block = message + at;
        uint32_t x[4], y[4];
        for (i = 0; i < 4; i++)
            x[i] = LITTLE(block + 4 * i) ^ key[i];
        for (round = 1; round < 10; round++) {
            for (i = 0; i < 4; i++)
                y[i] = AES_COLUMN(i) ^ key[4 * round + i];
            for (i = 0; i < 4; i++)
                x[i] = y[i];
        }
        for (i = 0; i < 4; i++)
            y[i] = AES_LAST(i) ^ key[40 + i];
        for (i = 0; i < 4; i++)
            PUT_LITTLE(block + 4 * i, y[i]);
    }
}

/* DES with the S-boxes and P in eight tables of 64 words, and two words of key a round. */
#define DES_EXCHANGE(a, b, by, mask) \
    (differ = (((a) >> (by)) ^ (b)) & UINT32_C(mask), (b) ^= differ, (a) ^= differ << (by))

KERNEL(des) {
    uint32_t at, round;
    UNUSED(state);
    for (at = 0; at < bytes; at += 8) {
        uint8_t *block = message + at;
        uint32_t left = BIG(block), right = BIG(block + 4), even, odd, f, differ;
        DES_EXCHANGE(left, right, 4, 0x0f0f0f0f);
        DES_EXCHANGE(left, right, 16, 0x0000ffff);
        DES_EXCHANGE(right, left, 2, 0x33333333);
        DES_EXCHANGE(right, left, 8, 0x00ff00ff);
        DES_EXCHANGE(left, right, 1, 0x55555555);
        for (round = 0; round < 16; round++) {
            even = ROTL(right, 5) ^ key[2 * round];
            odd = ROTL(right, 9) ^ key[2 * round + 1];
            f = left ^ tables[even & 0x3f] ^ tables[6 * 64 + (even >> 8 & 0x3f)] ^
                tables[4 * 64 + (even >> 16 & 0x3f)] ^ tables[2 * 64 + (even >> 24 & 0x3f)] ^
                tables[64 + (odd & 0x3f)] ^ tables[7 * 64 + (odd >> 8 & 0x3f)] ^
                tables[5 * 64 + (odd >> 16 & 0x3f)] ^ tables[3 * 64 + (odd >> 24 & 0x3f)];
            left = right;
            right = f;
        }
        f = left, left = right, right = f;
        DES_EXCHANGE(left, right, 1, 0x55555555);
        DES_EXCHANGE(right, left, 8, 0x00ff00ff);
        DES_EXCHANGE(right, left, 2, 0x33333333);
        DES_EXCHANGE(left, right, 16, 0x0000ffff);
        DES_EXCHANGE(left, right, 4, 0x0f0f0f0f);
        PUT_BIG(block, left);
        PUT_BIG(block + 4, right);
    }
}

/* RC5-32/16, RFC 2040. */
KERNEL(rc5) {
    uint32_t at, i;
    UNUSED(tables), UNUSED(state);
    for (at = 0; at < bytes; at += 8) {
        uint8_t *block = message + at;
        uint32_t a = LITTLE(block) + key[0], b = LITTLE(block + 4) + key[1];
        for (i = 1; i <= 16; i++) {
            a ^= b;
            a = ROTL_BY(a, b) + key[2 * i];
            b ^= a;
            b = ROTL_BY(b, a) + key[2 * i + 1];
        }
        PUT_LITTLE(block, a);
        PUT_LITTLE(block + 4, b);
    }
}

/* RC6-32/20. */
KERNEL(rc6) {
    uint32_t at, i;
    UNUSED(tables), UNUSED(state);
    for (at = 0; at < bytes; at += 16) {
        uint8_t *block = message + at;
        uint32_t a = LITTLE(block), b = LITTLE(block + 4) + key[0];
        uint32_t c = LITTLE(block + 8), d = LITTLE(block + 12) + key[1], t, u;
        for (i = 1; i <= 20; i++) {
            t = b * (2 * b + 1);
            t = ROTL(t, 5);
            u = d * (2 * d + 1);
            u = ROTL(u, 5);
            a ^= t;
            a = ROTL_BY(a, u) + key[2 * i];
            c ^= u;
            c = ROTL_BY(c, t) + key[2 * i + 1];
            t = a, a = b, b = c, c = d, d = t;
        }
        a += key[42];
        c += key[43];
        PUT_LITTLE(block, a);
        PUT_LITTLE(block + 4, b);
        PUT_LITTLE(block + 8, c);
        PUT_LITTLE(block + 12, d);
    }
}

#define BLOWFISH_F(x) \
    (((tables[(x) >> 24] + tables[256 + ((x) >> 16 & 0xff)]) ^ tables[512 + ((x) >> 8 & 0xff)]) + \
     tables[768 + ((x) & 0xff)])

KERNEL(blowfish) {
    uint32_t at, round, swap;
    UNUSED(state);
    for (at = 0; at < bytes; at += 8) {
        uint8_t *block = message + at;
        uint32_t left = BIG(block), right = BIG(block + 4);
        for (round = 0; round < 16; round++) {
            left ^= key[round];
            right ^= BLOWFISH_F(left);
            swap = left, left = right, right = swap;
        }
        swap = left ^ key[16];
        left = right ^ key[17];
        right = swap;
        PUT_BIG(block, left);
        PUT_BIG(block + 4, right);
    }
}

/* The product mod 2^16 + 1, by the low-high rule. */
static uint32_t idea_product(uint32_t a, uint32_t b) {
    uint32_t wide = a * b, high, low;
    if (wide == 0)
        return (1 - a - b) & 0xffff;
    high = wide >> 16;
    low = wide & 0xffff;
    return (low < high ? low - high + 1 : low - high) & 0xffff;
}

#define IDEA_WORD(p) ((uint32_t)(p)[0] << 8 | (p)[1])
#define IDEA_PUT(p, x) ((p)[0] = (uint8_t)((x) >> 8), (p)[1] = (uint8_t)(x))

KERNEL(idea) {
    uint32_t at, round;
    UNUSED(tables), UNUSED(state);
    for (at = 0; at < bytes; at += 8) {
        uint8_t *block = message + at;
        const uint32_t *k = key;
        uint32_t a = IDEA_WORD(block), b = IDEA_WORD(block + 2);
        uint32_t c = IDEA_WORD(block + 4), d = IDEA_WORD(block + 6), e, f, t;
        for (round = 0; round < 8; round++, k += 6) {
            a = idea_product(a, k[0]);
            b = (b + k[1]) & 0xffff;
            c = (c + k[2]) & 0xffff;
            d = idea_product(d, k[3]);
            e = idea_product(a ^ c, k[4]);
            f = idea_product(((b ^ d) + e) & 0xffff, k[5]);
            e = (e + f) & 0xffff;
            t = b;
            a ^= f, b = c ^ f, c = t ^ e, d ^= e;
        }
        a = idea_product(a, k[0]);
        t = (c + k[1]) & 0xffff;
        c = (b + k[2]) & 0xffff;
        d = idea_product(d, k[3]);
        IDEA_PUT(block, a);
        IDEA_PUT(block + 2, t);
        IDEA_PUT(block + 4, c);
        IDEA_PUT(block + 6, d);
    }
}
