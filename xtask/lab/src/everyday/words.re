(tor|mel)[a-z]+(ing|ed)
^[a-z]+ [a-z]+ (ka|lu)[a-z]*n
[aeiou]{3}.*[bcd]o\b
