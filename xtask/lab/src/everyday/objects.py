"""Objects, dictionaries and strings: what scripts do."""
import heapq


class Node:
    def __init__(self, key, left=None, right=None):
        self.key, self.left, self.right = key, left, right


def insert(node, key):
    if node is None:
        return Node(key)
    if key < node.key:
        node.left = insert(node.left, key)
    elif key > node.key:
        node.right = insert(node.right, key)
    return node


def depth(node):
    return 0 if node is None else 1 + max(depth(node.left), depth(node.right))


root, x = None, 12345
for _ in range(6000):
    x = (x * 1103515245 + 12345) % 2147483648
    root = insert(root, x >> 8)
words = {}
with open("text.txt") as text:
    for line in text:
        for word in line.split():
            words[word] = words.get(word, 0) + 1
        if len(words) > 2500:
            break
heap = [(count, word) for word, count in words.items()]
heapq.heapify(heap)
total = sum(heapq.heappop(heap)[0] * i for i in range(len(heap) // 2))
print(depth(root), total, sum(i * i % 7 for i in range(200000)))
