/* The engine service's transport for programs in C: one header, without a library.
 *
 * A connection is for one thread. Set-up messages are packets of a Unix socket, in postcard's encoding; a job is a
 * descriptor of one cache line in shared memory, with its content in the descriptor (up to 32 bytes) or in slots of 2,048
 * bytes. Each end announces a sleep in a word of its own and is then woken by a byte in a pipe.
 *
 * Guarantees: functions return 0 or a result of at least 0 on success, and a negative error otherwise: -errno, or one of
 * the values below. Counts and lengths of the service are checked before they are used. A call waits until the service
 * answers or ends. Contents have at most SEALANE_CONTENT_MAX bytes, and answers as many as the caller has room for.
 *
 * Needs C11, Linux, and a processor whose byte order is little-endian. The version of the protocol is 1.
 *
 *     struct sealane_engine engine;
 *     if (sealane_connect(&engine, "/run/sealane-engine/socket", "my program") == 0) {
 *         uint32_t key;
 *         unsigned char signature[1024];
 *         if (sealane_open(&engine, "web", &key) == 0)
 *             length = sealane_call(&engine, key, SEALANE_SIGN_PKCS1, SEALANE_SHA256, digest, 32, signature, 1024);
 *         sealane_close(&engine);
 *     }
 */
#ifndef SEALANE_ENGINE_H
#define SEALANE_ENGINE_H

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Operations; their parameters are described at each. */
enum {
    SEALANE_NULL = 0,         /* returns the content; 0 */
    SEALANE_SIGN_PKCS1 = 1,   /* RSASSA-PKCS1-v1_5 of a digest; the hash */
    SEALANE_SIGN_PSS = 2,     /* RSASSA-PSS of a digest; hash | mask's hash << 8 | bytes of salt << 16 */
    SEALANE_SIGN_ECDSA = 3,   /* ECDSA of a digest, in DER; 0 */
    SEALANE_SIGN_ED25519 = 4, /* Ed25519 of a message; 0 */
    SEALANE_DECRYPT_PKCS1 = 5, /* RSAES-PKCS1-v1_5; 0 */
    SEALANE_DECRYPT_OAEP = 6, /* RSAES-OAEP; hash | mask's hash << 8 */
    SEALANE_DERIVE = 7,       /* ECDH or X25519 with the peer's point or 32 bytes; 0 */
    SEALANE_SIGN_ML_DSA = 10  /* ML-DSA of a representative of 64 bytes; 1 for a deterministic signature */
};

/* Hashes. */
enum { SEALANE_SHA1 = 1, SEALANE_SHA224, SEALANE_SHA256, SEALANE_SHA384, SEALANE_SHA512 };

/* Errors besides -errno. A job that the service refuses gives SEALANE_REFUSED - its status, which is at least 1. */
enum {
    SEALANE_ENDED = -10000,    /* the service has ended, or ended the connection */
    SEALANE_PROTOCOL = -10001, /* the service broke the protocol */
    SEALANE_NO_ROOM = -10002,  /* the content is too long, or the answer longer than the caller's room */
    SEALANE_REFUSED = -10010   /* the service refused a message of set-up; less: it refused a job */
};

#define SEALANE_SLOTS 128u
#define SEALANE_PAYLOAD_BYTES 2048u
#define SEALANE_CONTENT_MAX (SEALANE_SLOTS / 2 * SEALANE_PAYLOAD_BYTES - 16u)

/* The layout of the shared memory. */
struct sealane_ring {
    _Alignas(128) _Atomic uint64_t tail; /* the producer's count of slots */
    _Alignas(128) _Atomic uint64_t head; /* the consumer's */
    _Alignas(128) _Atomic uint64_t descriptors[SEALANE_SLOTS][8];
    _Atomic uint64_t payloads[SEALANE_SLOTS][SEALANE_PAYLOAD_BYTES / 8];
};

struct sealane_memory {
    _Alignas(64) _Atomic uint32_t service_sleeps;
    _Alignas(64) _Atomic uint32_t client_waits;
    _Alignas(64) _Atomic uint32_t core_is_free;
    _Alignas(128) struct sealane_ring requests;
    struct sealane_ring answers;
};

struct sealane_engine {
    int socket;
    int bell[3]; /* the pipe's end that wakes the service; the end that wakes this program; the other end of the first */
    struct sealane_memory *memory;
    uint64_t submitted, taken; /* slots of requests written, and of answers read */
};

static inline uint32_t sealane_slots(size_t length) {
    return length <= 32 ? 1 : (uint32_t)((length + SEALANE_PAYLOAD_BYTES - 1) / SEALANE_PAYLOAD_BYTES);
}

/* Sends a message and receives its answer of up to `room` bytes, with up to four descriptors. Returns the length. */
static inline long sealane_ask(int fd, const unsigned char *ask, size_t length, unsigned char *told, size_t room,
                               int descriptors[4]) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = {told, room};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got;
    descriptors[0] = descriptors[1] = descriptors[2] = descriptors[3] = -1;
    if (send(fd, ask, length, MSG_NOSIGNAL) < 0 && errno != EPIPE)
        return -errno;
    do
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got < 0 && errno != ECONNRESET ? -errno : SEALANE_ENDED;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at))
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS &&
            at->cmsg_len <= CMSG_LEN(4 * sizeof(int)))
            memcpy(descriptors, CMSG_DATA(at), at->cmsg_len - CMSG_LEN(0));
    return message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? SEALANE_PROTOCOL : got;
}

/* Appends a text of less than 16,384 bytes to a message; returns the message's new length, or 0 if it is too long. */
static inline size_t sealane_put_text(unsigned char *message, size_t length, size_t room, const char *text) {
    size_t bytes = strlen(text);
    if (bytes >= 16384 || length + 2 + bytes > room)
        return 0;
    if (bytes >= 128)
        message[length++] = (unsigned char)(bytes & 127) | 128;
    message[length++] = (unsigned char)(bytes < 128 ? bytes : bytes >> 7);
    memcpy(message + length, text, bytes);
    return length + bytes;
}

static inline void sealane_close(struct sealane_engine *engine) {
    if (engine->memory)
        munmap(engine->memory, sizeof *engine->memory);
    for (int at = 0; at < 3; at++)
        if (engine->bell[at] >= 0)
            close(engine->bell[at]);
    if (engine->socket >= 0)
        close(engine->socket);
    engine->socket = engine->bell[0] = engine->bell[1] = engine->bell[2] = -1;
    engine->memory = NULL;
}

/* Connects to the service that listens at `path`; `program`, of up to 64 bytes, is for its log. */
static inline int sealane_connect(struct sealane_engine *engine, const char *path, const char *program) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unsigned char ask[128] = {0, 1, 1}, told[4096];
    int descriptors[4], outcome;
    struct stat found;
    size_t length = sealane_put_text(ask, 3, sizeof ask, program);
    *engine = (struct sealane_engine){.socket = -1, .bell = {-1, -1, -1}};
    if (length == 0 || strlen(path) >= sizeof address.sun_path)
        return SEALANE_NO_ROOM;
    strcpy(address.sun_path, path);
    engine->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (engine->socket < 0 || connect(engine->socket, (struct sockaddr *)&address, sizeof address) < 0) {
        outcome = -errno;
        sealane_close(engine);
        return outcome;
    }
    long got = sealane_ask(engine->socket, ask, length, told, sizeof told, descriptors);
    memcpy(engine->bell, descriptors + 1, sizeof engine->bell);
    outcome = got < 0 ? (int)got : told[0] == 5 ? SEALANE_REFUSED : SEALANE_PROTOCOL;
    if (got > 1 && told[0] == 0 && told[1] == 1 && descriptors[0] >= 0 && engine->bell[2] >= 0 &&
        fstat(descriptors[0], &found) == 0 && (size_t)found.st_size == sizeof(struct sealane_memory)) {
        void *memory = mmap(NULL, sizeof *engine->memory, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[0], 0);
        outcome = memory == MAP_FAILED ? -errno : 0;
        engine->memory = memory == MAP_FAILED ? NULL : memory;
    }
    if (descriptors[0] >= 0)
        close(descriptors[0]);
    if (outcome)
        sealane_close(engine);
    return outcome;
}

/* Opens the key of this name; `key` is its number in calls. */
static inline int sealane_open(struct sealane_engine *engine, const char *name, uint32_t *key) {
    unsigned char ask[1024] = {1, 0}, told[65536];
    int descriptors[4];
    size_t length = sealane_put_text(ask, 2, sizeof ask, name);
    if (length == 0)
        return SEALANE_NO_ROOM;
    long got = sealane_ask(engine->socket, ask, length, told, sizeof told, descriptors);
    if (got < 0)
        return (int)got;
    if (told[0] != 1)
        return told[0] == 5 ? SEALANE_REFUSED : SEALANE_PROTOCOL;
    *key = 0;
    for (long at = 1; at < got && at < 6; at++) {
        *key |= (uint32_t)(told[at] & 127) << 7 * (at - 1);
        if (told[at] < 128)
            return 0;
    }
    return SEALANE_PROTOCOL;
}

/* Copies bytes into words, or out of them. */
static inline void sealane_write(_Atomic uint64_t *words, const unsigned char *bytes, size_t length) {
    for (size_t at = 0; at < length; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, length - at < 8 ? length - at : 8);
        atomic_store_explicit(&words[at / 8], word, memory_order_relaxed);
    }
}

static inline void sealane_read(_Atomic uint64_t *words, unsigned char *bytes, size_t length) {
    for (size_t at = 0; at < length; at += 8) {
        uint64_t word = atomic_exchange_explicit(&words[at / 8], 0, memory_order_relaxed);
        memcpy(bytes + at, &word, length - at < 8 ? length - at : 8);
    }
}

/* Waits until there is an answer. */
static inline int sealane_wait(struct sealane_engine *engine) {
    struct sealane_memory *memory = engine->memory;
    char rings[64];
    for (;;) {
        atomic_store_explicit(&memory->client_waits, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        int is_there = atomic_load_explicit(&memory->answers.tail, memory_order_acquire) != engine->taken;
        struct pollfd ready = {.fd = engine->bell[1], .events = POLLIN};
        ssize_t got = is_there || poll(&ready, 1, -1) < 0 ? 1 : read(engine->bell[1], rings, sizeof rings);
        atomic_store_explicit(&memory->client_waits, 0, memory_order_relaxed);
        if (atomic_load_explicit(&memory->answers.tail, memory_order_acquire) != engine->taken)
            return 0;
        if (got == 0)
            return SEALANE_ENDED;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
    }
}

/* Has the service compute an operation with a key on a content; returns the length of the result. */
static inline long sealane_call(struct sealane_engine *engine, uint32_t key, uint32_t operation, uint32_t parameters,
                                const unsigned char *content, size_t length, unsigned char *result, size_t room) {
    struct sealane_ring *requests = &engine->memory->requests, *answers = &engine->memory->answers;
    _Atomic uint64_t *at = requests->descriptors[engine->submitted % SEALANE_SLOTS];
    if (length > SEALANE_CONTENT_MAX)
        return SEALANE_NO_ROOM;
    /* One job is under way at a time, so the ring is empty. */
    uint64_t tag = engine->submitted;
    atomic_store_explicit(&at[0], tag, memory_order_relaxed);
    atomic_store_explicit(&at[1], operation | (uint64_t)key << 32, memory_order_relaxed);
    atomic_store_explicit(&at[2], length | (uint64_t)parameters << 32, memory_order_relaxed);
    if (length <= 32)
        sealane_write(&at[4], content, length);
    else
        for (size_t done = 0; done < length; done += SEALANE_PAYLOAD_BYTES) {
            uint64_t slot = (engine->submitted + done / SEALANE_PAYLOAD_BYTES) % SEALANE_SLOTS;
            size_t left = length - done;
            sealane_write(requests->payloads[slot], content + done,
                          left < SEALANE_PAYLOAD_BYTES ? left : SEALANE_PAYLOAD_BYTES);
        }
    engine->submitted += sealane_slots(length);
    atomic_store_explicit(&requests->tail, engine->submitted, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&engine->memory->service_sleeps, memory_order_relaxed) &&
        atomic_exchange_explicit(&engine->memory->service_sleeps, 0, memory_order_relaxed))
        if (write(engine->bell[0], "\1", 1) < 0 && errno != EAGAIN)
            return -errno;

    int outcome = sealane_wait(engine);
    if (outcome)
        return outcome;
    at = answers->descriptors[engine->taken % SEALANE_SLOTS];
    uint64_t shown = atomic_load_explicit(&answers->tail, memory_order_acquire) - engine->taken;
    uint32_t status = (uint32_t)atomic_load_explicit(&at[1], memory_order_relaxed);
    size_t bytes = (uint32_t)atomic_load_explicit(&at[2], memory_order_relaxed);
    if (shown > SEALANE_SLOTS || sealane_slots(bytes) > shown || bytes > SEALANE_CONTENT_MAX + 16 ||
        atomic_load_explicit(&at[0], memory_order_relaxed) != tag)
        return SEALANE_PROTOCOL;
    int fits = bytes <= room;
    if (fits && bytes <= 32)
        sealane_read(&at[4], result, bytes);
    else if (fits)
        for (size_t done = 0; done < bytes; done += SEALANE_PAYLOAD_BYTES) {
            uint64_t slot = (engine->taken + done / SEALANE_PAYLOAD_BYTES) % SEALANE_SLOTS;
            size_t left = bytes - done;
            sealane_read(answers->payloads[slot], result + done,
                         left < SEALANE_PAYLOAD_BYTES ? left : SEALANE_PAYLOAD_BYTES);
        }
    engine->taken += sealane_slots(bytes);
    atomic_store_explicit(&answers->head, engine->taken, memory_order_release);
    if (status != 0)
        return SEALANE_REFUSED - (long)status;
    return fits ? (long)bytes : SEALANE_NO_ROOM;
}

#endif
