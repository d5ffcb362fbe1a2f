# Words and their lengths, counted in two associative arrays.
{ for (i = 1; i <= NF; i++) { count[$i]++; lengths[length($i)]++ } }
END { for (w in count) if (count[w] > 1) often++; for (l in lengths) sum += l * lengths[l]; print often, sum }
