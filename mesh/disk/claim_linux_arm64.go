package disk

const renameat2 = 276
