import sys; sys.path.insert(0,'experiments/candidates')
from tok import *
m=AutoModelForCausalLM.from_pretrained(V); m.load_state_dict(torch.load(__import__('os').environ['WORK']+'/sft150.pt')); m.eval()
for k,(h,s) in pools().items():
    fh,fs=feats(m,enc(h)),feats(m,enc(s))
    for n in ('mean','min_line','reg_min_line'):
        f=AGG[n]; sh=np.array([f(*x) for x in fh]); ss=np.array([f(*x) for x in fs]); t=np.quantile(sh,.05)
        s=s.assign(**{n:ss>t}); h=h.assign(**{n:sh>t})
    print(k); print(s.groupby('first_flaw_kind')[['mean','min_line','reg_min_line']].mean().assign(n=s.first_flaw_kind.value_counts()).round(2))
    print(h.groupby(h.first_flaw_kind.fillna('none'))[['mean','min_line','reg_min_line']].mean().assign(n=h.first_flaw_kind.fillna('none').value_counts()).round(2))
    x=s[s['reg_min_line']].sample(8,random_state=1)
    for r in x.itertuples():
        i=s.index.get_loc(r.Index); t,l,mx,e=fs[i]
        print(r.problem); print(' '.join(f"{tok.decode([a]).strip() or '/'}({b:.1f})" if b<-.5 else (tok.decode([a]).strip() or '/') for a,b in zip(t,l)), r.first_flaw_kind); print()
