/*
 * Runs the kernels for the laboratory: `driver FILE` reads what all ten are given from FILE, then obeys lines on standard
 * input: `check N` prints what kernel N makes of its message, in hexadecimal; `time N REPETITIONS` prints how many
 * nanoseconds so many messages take.
 */
#define _POSIX_C_SOURCE 199309L
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void kernel(const uint32_t *key, uint32_t *tables, uint8_t *message, uint32_t bytes, uint32_t *state);
kernel md5, sha1, rc4, seal3, aes, des, rc5, rc6, blowfish, idea;

#define COUNT 10
static kernel *const kernels[COUNT] = {md5, sha1, rc4, seal3, aes, des, rc5, rc6, blowfish, idea};

struct given {
    uint32_t key_words, table_words, bytes;
    uint32_t *key, *tables, *scratch;
    uint8_t *message, *work;
};

static void *take(FILE *file, size_t bytes) {
    void *made = malloc(bytes + 1);
    if (made == NULL || fread(made, 1, bytes, file) != bytes)
        exit(2);
    return made;
}

static uint32_t count(FILE *file) {
    uint32_t value;
    if (fread(&value, sizeof value, 1, file) != 1 || value > 1 << 20)
        exit(2);
    return value;
}

int main(int arguments, char **argument) {
    struct given all[COUNT];
    char line[64], what[8];
    unsigned number, repetitions, i;
    FILE *file = arguments == 2 ? fopen(argument[1], "rb") : NULL;
    if (file == NULL)
        return 2;
    for (i = 0; i < COUNT; i++) {
        struct given *one = &all[i];
        one->key_words = count(file);
        one->table_words = count(file);
        one->bytes = count(file);
        one->key = take(file, 4 * (size_t)one->key_words);
        one->tables = take(file, 4 * (size_t)one->table_words);
        one->message = take(file, one->bytes);
        one->scratch = malloc(4 * (size_t)one->table_words + 1);
        one->work = malloc(one->bytes + 1);
        if (one->scratch == NULL || one->work == NULL)
            return 2;
    }
    fclose(file);
    while (fgets(line, sizeof line, stdin) != NULL) {
        uint32_t state[8] = {0};
        struct given *one;
        repetitions = 1;
        if (sscanf(line, "%7s %u %u", what, &number, &repetitions) < 2 || number >= COUNT)
            return 2;
        one = &all[number];
        memcpy(one->scratch, one->tables, 4 * (size_t)one->table_words);
        memcpy(one->work, one->message, one->bytes);
        if (strcmp(what, "check") == 0) {
            kernels[number](one->key, one->scratch, one->work, one->bytes, state);
            if (number < 2) {
                for (i = 0; i < 32; i++)
                    printf("%02x", state[i / 4] >> 8 * (i % 4) & 0xff);
            } else {
                for (i = 0; i < one->bytes; i++)
                    printf("%02x", one->work[i]);
            }
            printf("\n");
        } else {
            struct timespec from, to;
            int64_t ns;
            clock_gettime(CLOCK_MONOTONIC, &from);
            for (i = 0; i < repetitions; i++)
                kernels[number](one->key, one->scratch, one->work, one->bytes, state);
            clock_gettime(CLOCK_MONOTONIC, &to);
            ns = (int64_t)(to.tv_sec - from.tv_sec) * 1000000000 + (to.tv_nsec - from.tv_nsec);
            printf("%" PRId64 "\n", ns);
        }
        fflush(stdout);
    }
    return 0;
}
