package rabbit

// roomInMemory is how many bytes the file system must have that keeps a broker's data in memory.
const roomInMemory = 4 << 30
