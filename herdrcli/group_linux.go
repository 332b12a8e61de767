package herdrcli

import "syscall"

// dieWithParent has the kernel kill the child when this process is killed. (It
// does so when the thread that started the child ends; those of the Go runtime
// last as long as the process.)
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
