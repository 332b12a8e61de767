package disk

const renameat2 = 316
