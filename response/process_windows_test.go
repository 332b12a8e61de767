package response

import "os"

func mkfifo(string) error { return os.ErrInvalid }

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err == nil {
		_ = p.Release()
	}
	return err == nil
}
