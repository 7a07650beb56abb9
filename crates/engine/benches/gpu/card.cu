// Measures a GPU as an accelerator card: the time in which packets in the host's memory are sealed by
// ChaCha20-Poly1305 (RFC 8439), with eight bytes of associated data as in ESP (RFC 7634).
//
// Build and run: nvcc -O3 -arch=native -o card card.cu -ldl && ./card > results.csv
//
// A warp seals a packet: each of its lanes computes blocks of the key stream and evaluates the authenticator's polynomial
// over these blocks; the 32 sums are added. A batch has packets of one length, and a descriptor for each packet names its
// nonce and one of 64 keys. The batch comes from page-locked memory, and its result is there when the clock stops.
//
// Four ways are measured:
//   copied     copy to the card, kernel, copy back, one after another
//   mapped     the kernel itself reads from and writes to the host's memory
//   streams    eight batches of the first way under way at a time, which share the card's copy engines
//   resident   the kernel alone, with the packets in the card's memory: no program can use it so
// A row is: way, bytes of a packet, packets of a batch, median microseconds of a batch (with streams: mean per batch), GB/s.
//
// Every way's packets are compared with those of OpenSSL's libcrypto (EVP_chacha20_poly1305), for every length of the
// table and for lengths around the block sizes. The program stops at the first difference.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vector>

#define CHECK(call)                                                                                                  \
    do {                                                                                                             \
        cudaError_t error = (call);                                                                                  \
        if (error != cudaSuccess) {                                                                                  \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                                      \
            std::exit(1);                                                                                            \
        }                                                                                                            \
    } while (0)

constexpr unsigned ALL = 0xffffffff;
constexpr int KEYS = 64;
constexpr int TAG = 16;
constexpr int WARPS = 4;  // warps of a block of threads

struct Packet {
    uint32_t key;
    uint32_t nonce[3];
};

struct Key {
    uint32_t words[8];
};

// A value modulo 2^130 - 5, in limbs of 26 bits.
struct Number {
    uint32_t limb[5];
};

__device__ __forceinline__ uint32_t rotated(uint32_t word, int bits) { return __funnelshift_l(word, word, bits); }

__device__ __forceinline__ void quarter(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d) {
    a += b, d = rotated(d ^ a, 16);
    c += d, b = rotated(b ^ c, 12);
    a += b, d = rotated(d ^ a, 8);
    c += d, b = rotated(b ^ c, 7);
}

// One block of the key stream (RFC 8439, 2.3).
__device__ void key_stream(const Key &key, const Packet &packet, uint32_t counter, uint32_t out[16]) {
    uint32_t start[16] = {0x61707865,   0x3320646e,   0x79622d32,   0x6b206574,   key.words[0], key.words[1],
                          key.words[2], key.words[3], key.words[4], key.words[5], key.words[6], key.words[7],
                          counter,      packet.nonce[0], packet.nonce[1], packet.nonce[2]};
#pragma unroll
    for (int at = 0; at < 16; at++) out[at] = start[at];
#pragma unroll 2
    for (int round = 0; round < 10; round++) {
        quarter(out[0], out[4], out[8], out[12]);
        quarter(out[1], out[5], out[9], out[13]);
        quarter(out[2], out[6], out[10], out[14]);
        quarter(out[3], out[7], out[11], out[15]);
        quarter(out[0], out[5], out[10], out[15]);
        quarter(out[1], out[6], out[11], out[12]);
        quarter(out[2], out[7], out[8], out[13]);
        quarter(out[3], out[4], out[9], out[14]);
    }
#pragma unroll
    for (int at = 0; at < 16; at++) out[at] += start[at];
}

// The number of 16 bytes, with the bit above them that RFC 8439, 2.5 adds to each block.
__device__ __forceinline__ Number of_block(const uint32_t words[4], uint32_t above) {
    constexpr uint32_t MASK = 0x3ffffff;
    return {{words[0] & MASK, __funnelshift_r(words[0], words[1], 26) & MASK,
             __funnelshift_r(words[1], words[2], 20) & MASK, __funnelshift_r(words[2], words[3], 14) & MASK,
             (words[3] >> 8) | above << 24}};
}

__device__ __forceinline__ Number sum(Number a, const Number &b) {
#pragma unroll
    for (int at = 0; at < 5; at++) a.limb[at] += b.limb[at];
    return a;
}

// Limbs of at most 28 bits come in; limbs of at most 27 bits come out.
__device__ __forceinline__ Number product(const Number &a, const Number &b) {
    constexpr uint32_t MASK = 0x3ffffff;
    uint64_t wide[5] = {};
#pragma unroll
    for (int i = 0; i < 5; i++) {
#pragma unroll
        for (int j = 0; j < 5; j++) {
            uint32_t other = i + j < 5 ? b.limb[j] : 5 * b.limb[j];
            wide[(i + j) % 5] += (uint64_t)a.limb[i] * other;
        }
    }
    Number result;
    uint64_t carry = 0;
#pragma unroll
    for (int at = 0; at < 5; at++) {
        wide[at] += carry;
        result.limb[at] = (uint32_t)wide[at] & MASK;
        carry = wide[at] >> 26;
    }
    carry = result.limb[0] + 5 * carry;
    result.limb[0] = (uint32_t)carry & MASK;
    result.limb[1] += (uint32_t)(carry >> 26);
    return result;
}

// value * point ^ exponent, exponent < 256. All lanes do the same steps.
__device__ Number raised(Number value, Number point, uint32_t exponent) {
#pragma unroll 1
    for (int bit = 0; bit < 8; bit++) {
        Number more = product(value, point);
        bool is_set = exponent >> bit & 1;
#pragma unroll
        for (int at = 0; at < 5; at++) value.limb[at] = is_set ? more.limb[at] : value.limb[at];
        point = product(point, point);
    }
    return value;
}

// Seals one packet of `bytes` bytes, a multiple of four, by one warp; the tag is written behind it.
__device__ void seal(const Key *keys, const Packet &packet, const uint32_t *from, uint32_t *to, uint32_t bytes) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t chunks = (bytes + 63) / 64, blocks = (bytes + 15) / 16;
    const Key key = keys[packet.key];
    uint32_t stream[16];
    key_stream(key, packet, lane, stream);
    // The first lane's block is the authenticator's key (RFC 8439, 2.6).
    uint32_t half[8];
#pragma unroll
    for (int at = 0; at < 8; at++) half[at] = __shfl_sync(ALL, stream[at], 0);
    const uint32_t clamped[4] = {half[0] & 0x0fffffff, half[1] & 0x0ffffffc, half[2] & 0x0ffffffc,
                                 half[3] & 0x0ffffffc};
    const Number point = of_block(clamped, 0);
    Number stride = point;  // point ^ 128: a lane's chunks are 32 chunks of four blocks apart
    for (int times = 0; times < 7; times++) stride = product(stride, stride);
    // Block 0 is the associated data; chunk c has blocks 1 + 4 c and on; the lengths are the last block.
    const uint32_t header[4] = {packet.nonce[1], packet.nonce[2], 0, 0};
    Number whole = {}, part = {};
    uint32_t whole_last = 0;
    if (lane == 0) whole = of_block(header, 1);
    for (uint32_t turn = 0; 32 * turn < chunks + 1; turn++) {
        const uint32_t chunk = 32 * turn + lane - 1;
        if (turn > 0) key_stream(key, packet, 32 * turn + lane, stream);
        const bool has_chunk = (turn > 0 || lane > 0) && chunk < chunks;
        if (!has_chunk) continue;
        const uint32_t words = min(16u, (bytes - 64 * chunk) / 4);
        const uint32_t *in = from + 16 * chunk;
        uint32_t *out = to + 16 * chunk;
        if (words == 16) {
#pragma unroll
            for (int at = 0; at < 16; at += 4) {
                uint4 four = *reinterpret_cast<const uint4 *>(in + at);
                four.x ^= stream[at], four.y ^= stream[at + 1], four.z ^= stream[at + 2], four.w ^= stream[at + 3];
                *reinterpret_cast<uint4 *>(out + at) = four;
                stream[at] = four.x, stream[at + 1] = four.y, stream[at + 2] = four.z, stream[at + 3] = four.w;
            }
        } else {
#pragma unroll
            for (int at = 0; at < 16; at++) {
                stream[at] = at < words ? in[at] ^ stream[at] : 0;
                if (at < words) out[at] = stream[at];
            }
        }
        const uint32_t own = min(4u, blocks - 4 * chunk);
        Number found = of_block(stream, 1);
#pragma unroll
        for (int block = 1; block < 4; block++) {
            if (block < own) found = sum(product(found, point), of_block(stream + 4 * block, 1));
        }
        if (own == 4) {
            whole = sum(product(whole, stride), found);
            whole_last = 4 * chunk + 4;
        } else {
            part = found;
        }
    }
    const uint32_t count = blocks + 2;
    Number total = raised(whole, point, count - whole_last);
    // Only the last chunk is no whole one; the lengths follow it.
    total = sum(total, product(product(part, point), point));
    if (lane == 0) {
        const uint32_t lengths[4] = {8, 0, bytes, 0};
        total = sum(total, product(of_block(lengths, 1), point));
    }
    uint64_t limbs[5];
#pragma unroll
    for (int at = 0; at < 5; at++) {
        limbs[at] = total.limb[at];
        for (int step = 16; step > 0; step /= 2) limbs[at] += __shfl_xor_sync(ALL, limbs[at], step);
    }
    if (lane != 0) return;
    constexpr uint32_t MASK = 0x3ffffff;
    uint64_t carry = 0;
    for (int pass = 0; pass < 3; pass++) {
        for (int at = 0; at < 5; at++) {
            limbs[at] += carry;
            carry = limbs[at] >> 26;
            limbs[at] &= MASK;
        }
        carry *= 5;
    }
    limbs[0] += carry;
    // The value is below 2^130; it less the modulus is taken if that is not negative.
    uint64_t less[5];
    carry = 5;
    for (int at = 0; at < 5; at++) {
        less[at] = limbs[at] + carry;
        carry = less[at] >> 26;
        less[at] &= MASK;
    }
    if (carry != 0) memcpy(limbs, less, sizeof limbs);
    const uint64_t low = limbs[0] | limbs[1] << 26 | limbs[2] << 52;
    const uint64_t high = limbs[2] >> 12 | limbs[3] << 14 | limbs[4] << 40;
    const uint64_t own_low = half[4] | (uint64_t)half[5] << 32, own_high = half[6] | (uint64_t)half[7] << 32;
    const uint64_t tag_low = low + own_low, tag_high = high + own_high + (tag_low < low);
    uint32_t *tag = to + bytes / 4;
    tag[0] = (uint32_t)tag_low, tag[1] = tag_low >> 32, tag[2] = (uint32_t)tag_high, tag[3] = tag_high >> 32;
}

__global__ void seal_all(const Key *keys, const Packet *packets, const uint8_t *from, uint8_t *to, uint32_t bytes,
                         uint32_t stride, uint32_t count) {
    const uint32_t packet = blockIdx.x * WARPS + threadIdx.x / 32;
    if (packet >= count) return;
    const size_t at = (size_t)packet * stride;
    seal(keys, packets[packet], reinterpret_cast<const uint32_t *>(from + at), reinterpret_cast<uint32_t *>(to + at),
         bytes);
}

// The length of a packet's place: the packet and its tag, so that places begin at multiples of 16 bytes.
static uint32_t place_of(uint32_t bytes) { return (bytes + TAG + 15) / 16 * 16; }

// A batch in the host's memory and its copy in the card's.
struct Batch {
    uint32_t bytes, stride, count;
    uint8_t *clear, *sealed, *on_card, *sealed_on_card;
    Packet *packets, *packets_on_card;

    Batch(uint32_t bytes, uint32_t count) : bytes(bytes), stride(place_of(bytes)), count(count) {
        CHECK(cudaMallocHost(&clear, size()));
        CHECK(cudaMallocHost(&sealed, size()));
        CHECK(cudaMallocHost(&packets, count * sizeof(Packet)));
        CHECK(cudaMalloc(&on_card, size()));
        CHECK(cudaMalloc(&sealed_on_card, size()));
        CHECK(cudaMalloc(&packets_on_card, count * sizeof(Packet)));
        uint32_t state = 1 + bytes;
        for (size_t at = 0; at < size(); at++) clear[at] = (state = state * 1664525 + 1013904223) >> 24;
        for (uint32_t at = 0; at < count; at++) packets[at] = {at % KEYS, {0x5a, 0x1234, at}};
    }
    Batch(const Batch &) = delete;
    ~Batch() {
        cudaFreeHost(clear), cudaFreeHost(sealed), cudaFreeHost(packets);
        cudaFree(on_card), cudaFree(sealed_on_card), cudaFree(packets_on_card);
    }
    size_t size() const { return (size_t)stride * count; }

    void run(const Key *keys, bool is_resident, cudaStream_t stream) const {
        seal_all<<<(count + WARPS - 1) / WARPS, 32 * WARPS, 0, stream>>>(
            keys, is_resident ? packets_on_card : packets, is_resident ? on_card : clear,
            is_resident ? sealed_on_card : sealed, bytes, stride, count);
    }
    void copied(const Key *keys, cudaStream_t stream) const {
        CHECK(cudaMemcpyAsync(packets_on_card, packets, count * sizeof(Packet), cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyAsync(on_card, clear, size(), cudaMemcpyHostToDevice, stream));
        run(keys, true, stream);
        CHECK(cudaMemcpyAsync(sealed, sealed_on_card, size(), cudaMemcpyDeviceToHost, stream));
    }
};

using Clock = std::chrono::steady_clock;

static double since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

template <typename Call> static double median_us(Call call) {
    std::vector<double> times;
    const auto begun = Clock::now();
    for (int turn = 0; turn < 400 && (turn < 5 || since(begun) < 60e3); turn++) {
        const auto start = Clock::now();
        call();
        times.push_back(since(start));
    }
    times.erase(times.begin());
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static void row(const char *way, const Batch &batch, double us) {
    std::printf("%s,%u,%u,%.2f,%.3f\n", way, batch.bytes, batch.count, us, batch.bytes * 1e-3 * batch.count / us);
}

// The functions of openssl/evp.h that compute what is compared.
struct OpenSsl {
    using Init = int (*)(void *, const void *, void *, const uint8_t *, const uint8_t *);
    using Update = int (*)(void *, uint8_t *, int *, const uint8_t *, int);
    using Final = int (*)(void *, uint8_t *, int *);
    using Control = int (*)(void *, int, int, void *);
    void *context;
    const void *cipher;
    Init init;
    Update update;
    Final final;
    Control control;

    OpenSsl() {
        void *library = dlopen("libcrypto.so.3", RTLD_NOW);
        if (!library) std::fprintf(stderr, "libcrypto.so.3: %s\n", dlerror()), std::exit(1);
        context = reinterpret_cast<void *(*)()>(dlsym(library, "EVP_CIPHER_CTX_new"))();
        cipher = reinterpret_cast<const void *(*)()>(dlsym(library, "EVP_chacha20_poly1305"))();
        init = reinterpret_cast<Init>(dlsym(library, "EVP_EncryptInit_ex"));
        update = reinterpret_cast<Update>(dlsym(library, "EVP_EncryptUpdate"));
        final = reinterpret_cast<Final>(dlsym(library, "EVP_EncryptFinal_ex"));
        control = reinterpret_cast<Control>(dlsym(library, "EVP_CIPHER_CTX_ctrl"));
    }
    void seal(const Key &key, const Packet &packet, const uint8_t *from, uint8_t *to, uint32_t bytes) const {
        constexpr int GET_TAG = 0x10;  // EVP_CTRL_AEAD_GET_TAG
        int length = 0;
        bool is_done = init(context, cipher, nullptr, reinterpret_cast<const uint8_t *>(key.words),
                            reinterpret_cast<const uint8_t *>(packet.nonce)) == 1 &&
                       update(context, nullptr, &length, reinterpret_cast<const uint8_t *>(packet.nonce + 1), 8) == 1 &&
                       update(context, to, &length, from, (int)bytes) == 1 && final(context, to + bytes, &length) == 1 &&
                       control(context, GET_TAG, TAG, to + bytes) == 1;
        if (!is_done) std::fprintf(stderr, "OpenSSL refuses\n"), std::exit(1);
    }
};

// Compares some packets of a batch, and forgets the batch's results.
static void compare(const OpenSsl &openssl, const Key *keys, const Batch &batch, const char *way) {
    std::vector<uint8_t> expected(batch.stride);
    for (uint32_t turn = 0; turn < std::min(batch.count, 64u); turn++) {
        const uint32_t at = (uint64_t)turn * batch.count / std::min(batch.count, 64u);
        const size_t place = (size_t)at * batch.stride;
        openssl.seal(keys[batch.packets[at].key], batch.packets[at], batch.clear + place, expected.data(), batch.bytes);
        if (std::memcmp(expected.data(), batch.sealed + place, batch.bytes + TAG) != 0) {
            std::fprintf(stderr, "%s: packet %u of %u bytes is wrong\n", way, at, batch.bytes);
            std::exit(1);
        }
    }
    std::memset(batch.sealed, 0, batch.size());
}

int main() {
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
    Key *keys;
    CHECK(cudaMallocHost(&keys, KEYS * sizeof(Key)));
    for (int key = 0; key < KEYS; key++)
        for (int word = 0; word < 8; word++) keys[key].words[word] = 0x9e3779b9u * (uint32_t)(8 * key + word + 1);
    Key *keys_on_card;
    CHECK(cudaMalloc(&keys_on_card, KEYS * sizeof(Key)));
    CHECK(cudaMemcpy(keys_on_card, keys, KEYS * sizeof(Key), cudaMemcpyHostToDevice));
    cudaStream_t streams[8];
    for (auto &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaStream_t stream = streams[0];
    const OpenSsl openssl;

    for (uint32_t bytes : {4u, 12u, 16u, 20u, 60u, 64u, 68u, 124u, 128u, 256u, 1400u, 1968u, 1984u, 1988u, 2048u, 2052u, 4096u,
                           8192u, 16380u, 16384u}) {
        Batch batch(bytes, 130);
        std::memset(batch.sealed, 0, batch.size());
        batch.run(keys_on_card, false, stream);
        CHECK(cudaStreamSynchronize(stream));
        compare(openssl, keys, batch, "mapped");
    }

    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    std::printf("# %s, %d multiprocessors; ChaCha20-Poly1305, eight bytes of associated data\n", properties.name,
                properties.multiProcessorCount);
    std::printf("way,bytes,packets,us,gigabytes_per_second\n");
    for (uint32_t bytes : {64u, 256u, 1024u, 1408u, 4096u, 16384u}) {
        for (uint32_t count = 1; count <= 65536 && (uint64_t)count * bytes <= 256u << 20; count *= 4) {
            Batch batch(bytes, count);
            row("copied", batch, median_us([&] {
                    batch.copied(keys_on_card, stream);
                    CHECK(cudaStreamSynchronize(stream));
                }));
            compare(openssl, keys, batch, "copied");
            row("mapped", batch, median_us([&] {
                    batch.run(keys_on_card, false, stream);
                    CHECK(cudaStreamSynchronize(stream));
                }));
            compare(openssl, keys, batch, "mapped");
            row("resident", batch, median_us([&] {
                    batch.run(keys_on_card, true, stream);
                    CHECK(cudaStreamSynchronize(stream));
                }));
        }
        for (uint32_t count = 32; count <= 32768 && (uint64_t)count * bytes <= 32u << 20; count *= 4) {
            std::vector<Batch *> batches;
            for (int at = 0; at < 8; at++) batches.push_back(new Batch(bytes, count));
            const auto start = Clock::now();
            uint64_t done = 0;
            double took;
            do {
                for (int at = 0; at < 8; at++) {
                    CHECK(cudaStreamSynchronize(streams[at]));
                    batches[at]->copied(keys_on_card, streams[at]);
                }
                done += 8;
            } while ((took = since(start)) < 200e3);
            CHECK(cudaDeviceSynchronize());
            took = since(start);
            row("streams", *batches[0], took / done);
            for (Batch *batch : batches) compare(openssl, keys, *batch, "streams"), delete batch;
        }
    }
    return 0;
}
