package rabbit

import "syscall"

const sharedMemory = "/dev/shm" // Linux has a file system in memory here; in a container it is often small

// nodeRoot is where the folder of a node is made: "" is the system's folder for temporary files.
func nodeRoot(inMemory bool) string {
	if inMemory && freeBytes(sharedMemory) >= roomInMemory {
		return sharedMemory
	}
	return ""
}

// freeBytes is the free space of the file system that has the folder, or 0 if there is none.
func freeBytes(folder string) uint64 {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return 0
	}
	return stat.Bavail * uint64(stat.Bsize)
}
