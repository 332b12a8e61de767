package herdrcli

import "syscall"

// dead is the exit code of a herdr that killed itself.
const dead = 1

func alive(pid int) bool {
	const stillActive = 259
	process, err := syscall.OpenProcess(syscall.PROCESS_QUERY_INFORMATION, false, uint32(pid))
	if err != nil {
		return false
	}
	defer syscall.CloseHandle(process)
	var code uint32
	return syscall.GetExitCodeProcess(process, &code) == nil && code == stillActive
}
