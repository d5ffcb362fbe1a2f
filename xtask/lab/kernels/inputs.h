// What the kernels work on: the same numbers, bytes, words and objects in every process.
//
// They are drawn from one sequence in the order of `make`, so what is added belongs at its end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace input {

// An object with a count of references and operations by its type, as interpreters have them.
struct Object {
    long references;
    const struct Type *type;
    long value;
    Object *other;
};

struct Type {
    long (*evaluate)(const Object *);
};

// A base class of four, for virtual calls.
struct Shape {
    long size;
    explicit Shape(long size) : size(size) {}
    virtual ~Shape() = default;
    virtual long area() const = 0;
};

// A block of a frame to be copied.
struct Move {
    const uint8_t *from;
    uint8_t *to;
};

constexpr int FRAME_WIDTH = 640;
constexpr int FRAME_HEIGHT = 368;
constexpr int BLOCK = 16;
// Furthest that a block has moved, in pixels.
constexpr int FURTHEST = 15;

static char text[65536];
static int numbers[4096];
static unsigned char bytes[65536];
static std::vector<std::string> words;
static Object *objects[1024];
static unsigned crc_table[256];
static const Shape *shapes[256];
static uint8_t old_frame[FRAME_WIDTH * FRAME_HEIGHT];
static uint8_t new_frame[FRAME_WIDTH * FRAME_HEIGHT];
static std::vector<Move> moves;
static double left[32][32], right[32][32];

// Marsaglia's xorshift of 64 bits.
static uint64_t random() {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// Words and numbers with blanks and ends of lines between them.
static void make_text() {
    static const char *const vocabulary[] = {
        "the",  "quick", "brown", "fox",    "jumps", "over",  "lazy", "dog", "alpha",
        "beta", "gamma", "x",     "return", "int",   "while", "12",   "345", "6789",
    };
    char *end = text;
    while (end < text + 65000) {
        const char *word = vocabulary[random() % 18];
        while (*word)
            *end++ = *word++;
        *end++ = random() % 9 ? ' ' : '\n';
    }
    *end = 0;
}

static long next_of(const Object *object) { return object->value + 1; }
static long triple_of(const Object *object) { return object->value * 3; }
static long value_of_other(const Object *object) {
    return object->other ? object->other->value : 7;
}

static void make_objects() {
    static const Type types[] = {{next_of}, {triple_of}, {value_of_other}};
    for (int i = 0; i < 1024; i++) {
        const Type *type = &types[random() % 3];
        long value = long(random() & 255);
        Object *other = i ? objects[random() % i] : nullptr;
        objects[i] = new Object{1, type, value, other};
    }
}

// The table of CRC-32 as zlib has it, a byte at a time.
static void make_crc_table() {
    for (unsigned i = 0; i < 256; i++) {
        unsigned value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? value >> 1 ^ 0xedb88320 : value >> 1;
        crc_table[i] = value;
    }
}

struct Square : Shape {
    using Shape::Shape;
    long area() const override { return size * size; }
};
struct Strip : Shape {
    using Shape::Shape;
    long area() const override { return size * 7; }
};
struct Triangle : Shape {
    using Shape::Shape;
    long area() const override { return size * size / 2; }
};
struct Point : Shape {
    using Shape::Shape;
    long area() const override { return 0; }
};

static void make_shapes() {
    for (const Shape *&shape : shapes) {
        long size = long(random() & 255);
        switch (random() % 4) {
        case 0:
            shape = new Square(size);
            break;
        case 1:
            shape = new Strip(size);
            break;
        case 2:
            shape = new Triangle(size);
            break;
        default:
            shape = new Point(size);
            break;
        }
    }
}

// Each block of the new frame comes from nearby in the old one, at any byte.
static void make_moves() {
    for (uint8_t &pixel : old_frame)
        pixel = uint8_t(random());
    auto moved = [](int at, int size) {
        int to = at + int(random() % (2 * FURTHEST + 1)) - FURTHEST;
        return std::clamp(to, 0, size - BLOCK);
    };
    for (int y = 0; y < FRAME_HEIGHT; y += BLOCK)
        for (int x = 0; x < FRAME_WIDTH; x += BLOCK) {
            int from_x = moved(x, FRAME_WIDTH);
            int from_y = moved(y, FRAME_HEIGHT);
            moves.push_back({old_frame + ptrdiff_t(from_y) * FRAME_WIDTH + from_x,
                             new_frame + ptrdiff_t(y) * FRAME_WIDTH + x});
        }
}

// Factors from 0 to 1.
static void make_matrices() {
    for (auto *matrix : {&left, &right})
        for (auto &row : *matrix)
            for (double &factor : row)
                factor = double(random() >> 40) / (1 << 24);
}

static void make() {
    make_text();
    for (int &number : numbers)
        number = int(random() >> 40);
    for (unsigned char &byte : bytes)
        byte = random() % 7 ? random() % 16 : random();
    for (int i = 0; i < 2000; i++) {
        std::string word;
        for (int left = 1 + random() % 12; left > 0; left--)
            word += char('a' + random() % 26);
        words.push_back(word);
    }
    make_objects();
    make_crc_table();
    make_shapes();
    make_moves();
    make_matrices();
}

} // namespace input
